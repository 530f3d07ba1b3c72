package backtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich"
)

// flapping is a Prometheus without metrics, in which the alerts of 80 pods fire for three minutes
// of every four, in three hours of each day. It makes its samples when they are asked for.
type flapping struct{ intervals map[time.Time]bool }

const (
	flappingPods  = 80
	flappingEvery = 4 * time.Minute
	flappingFor   = 3 * time.Minute
	flappingHours = 3
)

var windowOf = regexp.MustCompile(`\[(\d+)s\]`)

func (f flapping) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	query := r.FormValue("query")
	var result any = []any{}
	kind := "vector"
	if m := windowOf.FindStringSubmatch(query); m != nil && query[:6] == "ALERTS" {
		seconds, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		unix, err := strconv.ParseFloat(r.FormValue("time"), 64)
		if err != nil {
			return nil, err
		}
		to := time.Unix(int64(unix), 0).UTC()
		kind, result = "matrix", f.samples(to.Add(-time.Duration(seconds)*time.Second), to)
	}
	if r.URL.Path == "/api/v1/query_range" {
		kind = "matrix"
	}
	if r.URL.Path == "/api/v1/rules" {
		http.NotFound(w, r)
		return w.Result(), nil
	}
	err := json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}})
	return w.Result(), err
}

func (f flapping) samples(from, to time.Time) any {
	var values []any
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		begin := at.Truncate(flappingEvery)
		if at.Hour() < flappingHours && at.Sub(begin) < flappingFor {
			values = append(values, []any{at.Unix(), "1"})
			f.intervals[begin] = true
		}
	}
	out := []any{}
	for i := range flappingPods {
		if len(values) > 0 {
			out = append(out, map[string]any{"metric": map[string]string{"__name__": "ALERTS", "alertname": "VLLMWorkerDown",
				"alertstate": "firing", "severity": "warning", "namespace": "llm", "pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aaa%02d", i)},
				"values": values})
		}
	}
	return out
}

// silent is a source without evidence, so that the test takes seconds.
type silent struct{}

func (silent) Read(context.Context, enrich.Query) enrich.Reading { return enrich.Reading{} }
func (silent) Ping(context.Context) error                        { return nil }

// The memory of a backtest must not grow with its window: not with 30 days or 100,000 alerts.
func TestMemoryDoesNotGrowWithTheWindow(t *testing.T) {
	t.Parallel()
	play := func(since time.Duration) *backtest {
		source := flapping{map[time.Time]bool{}}
		b, err := newBacktest(Options{Config: config.Default(), URL: "http://prometheus", Since: since, Rate: 1e9, End: end, Transport: source})
		if err != nil {
			t.Fatal(err)
		}
		b.source = func() (enrich.Source, error) { return silent{}, nil }
		if err := b.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		for b.now.Before(b.to) {
			if err := b.piece(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.finish()
		if want := len(source.intervals) * flappingPods; b.tally.Alerts != want {
			t.Errorf("%s: %d alerts, want %d", since, b.tally.Alerts, want)
		}
		return b
	}
	short, long := play(3*24*time.Hour), play(30*24*time.Hour)
	if long.tally.Alerts < 100_000 || long.tally.Opened < 30 {
		t.Fatalf("%d alerts and %d incidents prove too little", long.tally.Alerts, long.tally.Opened)
	}
	rows := len(long.tally.Incidents) - len(short.tally.Incidents) // bounded by mostIncidents
	if long.most > short.most+rows {
		t.Errorf("3 days held %d records at most, 30 days %d", short.most, long.most)
	}
}
