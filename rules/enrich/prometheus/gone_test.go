package prometheus

import (
	"fmt"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// After a rollout, only the replaced workers show the onset. Their charts are read, but not their
// values.
func TestReplacedWorkersKeepTheirCharts(t *testing.T) {
	full := map[string]float64{"vllm:num_requests_running": 3, "vllm:kv_cache_usage_perc": .98}
	pods := rolledOut{"vllm-7d9f8b6c5-aaaa0": full, "vllm-7d9f8b6c5-aaaa1": full, "vllm-65c4d7f98-bbbb0": {"vllm:num_requests_running": 3,
		"vllm:kv_cache_usage_perc": .4},
		"other-7d9f8b6c5-cccc0": full}
	for name, scope := range map[string]state.Scope{"pool": {Namespace: "llm", Pool: "vllm"}, "pods": {Namespace: "llm",
		Pods: []string{"vllm-7d9f8b6c5-aaaa0"}}} {
		r := fresh(t, &fakeAPI{t: t, store: pods.store()}).Read(t.Context(), queryAll(t, scope, now.Add(-30*time.Minute), now))
		drawn := map[string]int{}
		for _, s := range r.Gone {
			if s.Signal == "kv_usage" {
				drawn[s.Entity.Pod] = len(s.Series)
				if first, last := s.Series[0], s.Series[len(s.Series)-1]; first.Value != .98 || last.At.After(now.Add(-19*time.Minute)) ||
					last.At.Before(now.Add(-27*time.Minute)) {
					t.Errorf("%s: %s is drawn from %v to %v", name, s.Entity.Pod, first, last)
				}
			}
		}
		if len(drawn) != 2 || drawn["vllm-7d9f8b6c5-aaaa0"] < 20 || drawn["vllm-7d9f8b6c5-aaaa1"] < 20 {
			t.Errorf("%s: the former workers have charts with points of %v", name, drawn)
		}
		for _, s := range r.Samples {
			if s.Signal == "kv_usage" && (s.Entity.Pod == "vllm-7d9f8b6c5-aaaa0" || s.Entity.Pod == "vllm-7d9f8b6c5-aaaa1") {
				t.Errorf("%s: %s has a value now", name, s.Entity.Pod)
			}
		}
	}
}

// An engine whose series have ended is listed if it reported a model before the onset.
func TestSilentEnginesAreListed(t *testing.T) {
	s := &store{}
	for i, end := range []time.Duration{10 * time.Minute, 0} {
		for at := now.Add(-2 * time.Hour); at.Before(now.Add(-end)); at = at.Add(30 * time.Second) {
			s.add(map[string]string{"__name__": "vllm:num_requests_running", "model_name": "llama", "job": "llm/chat",
				"instance": fmt.Sprintf("10.0.0.%d:8000", i+1)}, at, 5)
		}
	}
	client, err := New(Config{URL: (&fakeAPI{t: t, store: s}).serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := client.Read(t.Context(), enrich.Query{Cluster: "default", Onset: now.Add(-5 * time.Minute), Now: now, Signals: builtIn(t)})
	if len(r.Earlier) != 1 || r.Earlier[0].Instance != "10.0.0.1:8000" || r.Earlier[0].Model != "llama" {
		t.Errorf("silent engines %+v, want that of 10.0.0.1:8000", r.Earlier)
	}
}
