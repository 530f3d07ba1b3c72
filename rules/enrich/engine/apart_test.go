package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/enrich"
)

// Engines behind one address are distinguished by their paths. A page that is listed twice counts
// once, and a failing one is reported with its URL.
func TestEnginesBehindOneAddressAreSeveralWorkers(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/metrics":
			fmt.Fprint(w, "vllm:num_requests_waiting{model_name=\"m\"} 3\n")
		case "/b/metrics":
			fmt.Fprint(w, "vllm:num_requests_waiting{model_name=\"m\"} 5\n")
		default:
			http.Error(w, "out of order", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(srv.Close)
	c := &clock{now: start}
	var targets []Target
	for _, path := range []string{"/a/metrics", "/b/metrics", "/b/metrics", "/c/metrics"} {
		targets = append(targets, Target{URL: srv.URL + path})
	}
	client := New(Config{Targets: targets, Signals: builtIn(t), Clock: c})
	client.Scrape(t.Context())
	c.pass(time.Second)
	client.Scrape(t.Context())
	host := srv.Listener.Addr().String()
	got := map[string]float64{}
	for _, s := range client.Read(t.Context(), enrich.Query{Cluster: "default", Signals: builtIn(t), Now: c.now, Onset: c.now}).Samples {
		if s.Signal == "requests_waiting" && s.Entity.Instance != "" {
			got[s.Entity.Instance] = s.Value
		}
	}
	if d := cmp.Diff(map[string]float64{host + "/a": 3, host + "/b": 5}, got); d != "" {
		t.Errorf("workers (-want +got):\n%s", d)
	}
	if want := []Problem{{srv.URL + "/c/metrics", "answers 500 to a scrape"}}; !slices.Equal(client.Problems(), want) {
		t.Errorf("problems: %v", client.Problems())
	}
	alone := New(Config{Targets: []Target{{URL: srv.URL + "/a/metrics"}}, Signals: builtIn(t), Clock: c})
	alone.Scrape(t.Context())
	if got := alone.list()[0].labels["instance"]; got != host {
		t.Errorf("an address with one engine is named %s", got)
	}
}
