package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// slowPages serves pages that can fail, and that can take time.
type slowPages struct {
	clock *clock
	down  map[string]bool
	takes time.Duration
	n     atomic.Int64
}

func (f *slowPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health":
	case f.down[r.URL.Path]:
		http.Error(w, "no", http.StatusBadGateway)
	default:
		fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"llama\"} 3\nvllm:num_preemptions_total{model_name=\"llama\"} %d\n",
			f.n.Add(1))
		f.clock.pass(f.takes)
	}
}

func (f *slowPages) client(t *testing.T, targets ...string) *Client {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	var all []Target
	for _, path := range targets {
		all = append(all, Target{URL: srv.URL + "/" + path, Labels: map[string]string{"namespace": "llm", "pod": path[:1],
			"instance": path}})
	}
	return New(Config{Targets: all, Signals: builtIn(t), Clock: f.clock})
}

func sampleOf(c *Client, t *testing.T, signal, pod string, at time.Time) *state.Sample {
	t.Helper()
	for _, s := range c.Read(t.Context(), enrich.Query{Cluster: "default", Signals: builtIn(t), Now: at, Onset: at, Fresh: true}).Samples {
		if s.Signal == signal && s.Entity.Pod == pod {
			return &s
		}
	}
	return nil
}

// Values are of the time of the request, and may have changed when the page arrives.
func TestPageHasTheTimeOfItsRequest(t *testing.T) {
	c := &clock{now: start}
	client := (&slowPages{clock: c, takes: 2 * time.Second}).client(t, "a")
	client.Scrape(t.Context())
	if s := sampleOf(client, t, "requests_running", "a", c.Now()); s == nil || !s.At.Equal(start) {
		t.Errorf("%+v", s)
	}
}

// A rate still uses earlier pages of a worker that no longer answers.
func TestRateHasTheTimeOfItsNewestPage(t *testing.T) {
	c := &clock{now: start}
	f := &slowPages{clock: c, down: map[string]bool{}}
	client := f.client(t, "a", "b")
	var read time.Time
	for range 4 {
		client.Scrape(t.Context())
		read = c.Now()
		c.pass(15 * time.Second)
	}
	f.down["/a"] = true
	client.Scrape(t.Context())
	for pod, want := range map[string]time.Time{"a": read, "b": c.Now()} {
		if s := sampleOf(client, t, "preemption_rate", pod, c.Now()); s == nil || !s.At.Equal(want) {
			t.Errorf("%s: %+v, want it of %s", pod, s, want)
		}
	}
}

// A worker with two pages runs the requests of both. Its value has the time of the older page.
func TestValueOfTwoPagesHasTheOlderTime(t *testing.T) {
	c := &clock{now: start}
	f := &slowPages{clock: c, takes: 5 * time.Second}
	client := f.client(t, "a1", "a2")
	for _, page := range client.list() {
		began := c.Now()
		points, err := client.fetch(t.Context(), page.url, page.page)
		page.record(began, points, 1, err)
	}
	if s := sampleOf(client, t, "requests_running", "a", c.Now()); s == nil || s.Value != 6 || !s.At.Equal(start) {
		t.Errorf("%+v", s)
	}
}
