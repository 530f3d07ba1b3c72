package backtest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/cmd/paramedic/config"
	"paramedic/lab"
	"paramedic/state"
)

var update = flag.Bool("update", false, "rewrite the expected outputs")

var end = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// theFaults are the faults of the lab's past, with the time at which their fleets start.
var theFaults = []struct {
	fault string
	ago   time.Duration
}{{lab.KVExhaustion, 340 * time.Minute}, {lab.GPUFault, 220 * time.Minute}, {lab.TrafficSurge, 100 * time.Minute}}

// labPast returns six hours with three faults of the lab, one after the other. Beside them an alert
// fires all the time, as a dead man's switch does, and one of a rule that no longer exists.
var labPast = sync.OnceValues(func() (*past, error) {
	p := newPast()
	for at := end.Add(-6 * time.Hour); !at.After(end); at = at.Add(scrapeEvery) {
		p.add("up", map[string]string{"job": "prometheus", "instance": "127.0.0.1:9090"}, at, 1)
		p.add("ALERTS", map[string]string{"alertname": "Watchdog", "alertstate": "firing", "severity": "none"}, at, 1)
		if ago := end.Sub(at); ago > 2*time.Hour && ago < 130*time.Minute {
			p.add("ALERTS", map[string]string{"alertname": "DiskAlmostFull", "alertstate": "firing", "severity": "warning",
				"instance": "db-1:9100", "namespace": "db"}, at, 1)
		}
	}
	for _, f := range theFaults {
		if err := p.live(f.fault, end.Add(-f.ago)); err != nil {
			return nil, err
		}
	}
	return p, nil
})

// serveLab starts the API of the lab's past.
func serveLab(t *testing.T) string {
	t.Helper()
	p, err := labPast()
	if err != nil {
		t.Fatal(err)
	}
	return p.serve(t)
}

func optionsFor(url string) Options {
	return Options{Config: config.Default(), URL: url, Since: 6 * time.Hour, Rate: 1e6, End: end}
}

// Known faults of the lab must be found in the past as they are found live: by their names.
func TestRunNamesTheFaultsOfThePast(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), optionsFor(serveLab(t)))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, in := range r.Incidents {
		if in.Cause != state.Unknown {
			named = append(named, string(in.Cause))
		}
	}
	if want := []string{theFaults[0].fault, theFaults[1].fault, theFaults[2].fault}; !slices.Equal(named, want) {
		t.Errorf("the causes are %v, want %v", named, want)
	}
	golden(t, "report.txt", func(b *bytes.Buffer) { r.Text(b) })
	golden(t, "report.md", func(b *bytes.Buffer) { r.Markdown(b) })
	golden(t, "report.json", func(b *bytes.Buffer) {
		format := "json"
		if err := (Streams{Out: b, Format: &format}).print(r); err != nil {
			t.Fatal(err)
		}
	})
}

func golden(t *testing.T, name string, write func(*bytes.Buffer)) {
	t.Helper()
	var got bytes.Buffer
	write(&got)
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, d)
	}
}

// A run that is interrupted within a piece, and continued, must end as one that was not. The
// trouble goes on over the end of the piece.
func TestInterruptedRunEndsWithTheSameReport(t *testing.T) {
	t.Parallel()
	o := optionsFor(serveLab(t))
	o.Since = 2 * time.Hour
	var queries []int // until the end of each piece
	o.Report = func(p Progress) { queries = append(queries, p.Queries) }
	want, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.State = filepath.Join(t.TempDir(), "state.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Transport = cancelling{left: &atomic.Int64{}, cancel: cancel}
	o.Transport.(cancelling).left.Store(int64((queries[0] + queries[len(queries)-1]) / 2))
	at := time.Time{}
	o.Report = func(p Progress) { at = p.At }
	if _, err := Run(ctx, o); err == nil || at.IsZero() || !strings.Contains(err.Error(), "to continue from "+o.State) {
		t.Fatalf("interrupted after the piece until %s: %v", at, err)
	}
	o.Transport, o.End = nil, end.Add(time.Hour) // the window stays that of the first run
	began := time.Time{}
	o.Report = func(p Progress) {
		if began.IsZero() {
			began = p.At
		}
	}
	got, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !began.After(at) {
		t.Errorf("the second run played %s again, which the first had finished at %s", began, at)
	}
	if d := cmp.Diff(asJSON(t, want), asJSON(t, got)); d != "" {
		t.Errorf("the continued run differs (-whole +continued):\n%s", d)
	}
	if _, err := os.Stat(o.State); !os.IsNotExist(err) {
		t.Errorf("the state file is still there at the end: %v", err)
	}
}

// cancelling cancels a context after a number of requests.
type cancelling struct {
	left   *atomic.Int64
	cancel context.CancelFunc
}

func (c cancelling) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// asJSON returns a report for comparison.
func asJSON(t *testing.T, r Report) string {
	t.Helper()
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
