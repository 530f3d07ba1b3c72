package incidentlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"paramedic/internal/incidentlog"
)

func lines(t *testing.T, write func(*slog.Logger)) []string {
	t.Helper()
	var out bytes.Buffer
	write(slog.New(incidentlog.Handler{Handler: slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})}))
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestLinesHaveTheIncidentOnce(t *testing.T) {
	ctx := incidentlog.With(context.Background(), "INC-1")
	got := lines(t, func(log *slog.Logger) {
		log.InfoContext(ctx, "added")
		log.With("part", 1).InfoContext(ctx, "derived")
		log.InfoContext(ctx, "own", "incident", "INC-2")
		log.InfoContext(context.Background(), "none")
	})
	want := []string{"msg=added incident=INC-1", "msg=derived part=1 incident=INC-1", "msg=own incident=INC-2", "msg=none"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

// A server's own lines about a request name the incident that a handler found.
func TestCallersLinesNameTheIncidentFoundLater(t *testing.T) {
	ctx := incidentlog.Open(context.Background())
	got := lines(t, func(log *slog.Logger) {
		log.InfoContext(ctx, "before")
		incidentlog.Name(ctx, "")
		incidentlog.Name(ctx, "INC-1")
		log.InfoContext(ctx, "after")
	})
	if got[0] != "msg=before" || got[1] != "msg=after incident=INC-1" {
		t.Errorf("got %q", got)
	}
}
