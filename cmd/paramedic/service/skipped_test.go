package service

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
)

// An input that cannot be decoded is skipped. The status and the list page have the number and the
// reason of the newest.
func TestSkippedInputsAreShown(t *testing.T) {
	url := natstest.Start(t)
	base, bot := startBotOn(t, jetstream.Config{URL: url, Replicas: 1}, slog.New(slog.DiscardHandler))
	get := func(path string) string {
		_, body := ask(t, http.MethodGet, base+path, "")
		return body
	}
	if got := get("/api/v1/status"); !strings.Contains(got, `"skipped_inputs":{"total":0}`) || strings.Contains(get("/"), "skipped") {
		t.Errorf("before any was skipped: %s", got)
	}
	partition := bot.deps.Store.Partition("default")
	natstest.AppendRaw(t, url, partition, "[")
	natstest.AppendRaw(t, url, partition, `{"at":"<b>yesterday"}`)
	eventually(t, "both are skipped", func() bool { n, _ := bot.Keeper.Skipped(); return n == 2 })
	for path, wants := range map[string][]string{
		"/api/v1/status": {`"skipped_inputs":{"total":2,"newest":{"partition":`, `"input":2,"at":"`, `yesterday`},
		"/":              {"skipped 2 inputs that it cannot apply", "&lt;b&gt;yesterday"},
	} {
		got := get(path)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s: %s", path, want, got)
			}
		}
	}
}

// eventually polls for a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
