package evidence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A countedPage serves counters that grow with every scrape, until it is down.
type countedPage struct {
	down atomic.Bool

	mu     sync.Mutex
	served []time.Time
}

func (p *countedPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if p.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served = append(p.served, time.Now())
	n := len(p.served)
	const labels = `{model_name="llama",engine="0"}`
	fmt.Fprintf(w, "vllm:num_requests_running%s 3\nvllm:num_preemptions_total%s %d\n", labels, labels, n)
	for _, le := range []string{"0.5", "1", "+Inf"} {
		fmt.Fprintf(w, "vllm:time_to_first_token_seconds_bucket{model_name=\"llama\",engine=\"0\",le=%q} %d\n", le, n)
	}
}

// nearest returns the time between a moment and the nearest scrape.
func (p *countedPage) nearest(at time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	far := time.Hour
	for _, s := range p.served {
		far = min(far, at.Sub(s).Abs())
	}
	return far
}

// eventually waits up to 30 s until a condition holds.
func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	beat := time.NewTicker(200 * time.Millisecond)
	defer beat.Stop()
	for {
		err := is()
		if err == nil {
			return
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			t.Fatalf("timeout while waiting until %s: %v", what, err)
		}
	}
}

// Fresh values have the time of their scrape. A page that is down has no fresh values, although
// Prometheus still computes its rates for minutes.
func TestFreshValuesOfRealPrometheus(t *testing.T) {
	pages := map[string]*countedPage{"a": {}, "b": {}}
	config := "global: {scrape_interval: 3s, scrape_timeout: 2s}\nscrape_configs:\n- job_name: vllm\n  static_configs:\n"
	for _, pod := range []string{"a", "b"} {
		srv := httptest.NewServer(pages[pod])
		t.Cleanup(srv.Close)
		config += fmt.Sprintf("  - {targets: [%q], labels: {namespace: llm, pod: vllm-llama-7d9f8b6c5-aaaa%s}}\n",
			strings.TrimPrefix(srv.URL, "http://"), pod)
	}
	address := startPrometheus(t, t.TempDir(), config)
	known, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	client, err := prometheus.New(prometheus.Config{URL: address, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: known})
	wanted := []string{"preemption_rate", "requests_running", "ttft_p95"}
	read := func(fresh bool) (of map[string]map[string]time.Time, now time.Time) {
		now, of = time.Now(), map[string]map[string]time.Time{"a": {}, "b": {}}
		for _, s := range gather.Gather(t.Context(),
			enrich.Request{Cluster: "default", Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"},
				Onset: now.Add(-time.Minute), Now: now, Signals: wanted, Fresh: fresh}).Samples {
			if s.Entity.Pod != "" {
				of[s.Entity.Pod[len(s.Entity.Pod)-1:]][s.Signal] = s.At
			}
		}
		return of, now
	}
	whole := func(of map[string]time.Time) bool { return len(of) == len(wanted) }
	eventually(t, "both workers are read", func() error {
		of, now := read(true)
		if !whole(of["a"]) || !whole(of["b"]) {
			return fmt.Errorf("%v", of)
		}
		for pod, page := range pages {
			for signal, at := range of[pod] {
				if far := page.nearest(at); far > time.Second || at.After(now) {
					t.Errorf("%s of %s is of %s, %s from the nearest scrape", signal, pod, at, far)
				}
			}
		}
		return nil
	})
	pages["b"].down.Store(true)
	eventually(t, "the page that is down is unknown", func() error {
		of, _ := read(true)
		plain, _ := read(false)
		if !whole(of["a"]) || len(of["b"]) > 0 {
			return fmt.Errorf("%v", of)
		}
		if _, lingers := plain["b"]["preemption_rate"]; !lingers {
			return errors.New("its rate does not linger, so that nothing is shown")
		}
		return nil
	})
}
