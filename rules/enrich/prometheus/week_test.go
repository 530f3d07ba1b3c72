package prometheus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// A server that keeps a week has the values of all three times. Each value must be of its own time.
func TestReadGivesHourDayAndWeekAgo(t *testing.T) {
	s := &store{}
	onset := now.Add(-10 * time.Minute)
	labels := map[string]string{"pod": "vllm-llama-7d9f8b6c5-aaaa0", "namespace": "llm", "instance": "10.0.0.0:8000", "job": "vllm",
		"model_name": "llama-70b"}
	named := func(name string) map[string]string {
		l := map[string]string{"__name__": name}
		for k, v := range labels {
			l[k] = v
		}
		return l
	}
	for i, c := range []struct {
		ago      time.Duration
		kv, rate float64 // tokens a second
	}{{7 * 24 * time.Hour, 0.4, 40}, {24 * time.Hour, 0.3, 30}, {time.Hour, 0.2, 20}, {-10 * time.Minute, 0.9, 90}} {
		began := onset.Add(-c.ago - 6*time.Minute)
		for d := time.Duration(0); d <= 6*time.Minute; d += 15 * time.Second {
			s.add(named("vllm:kv_cache_usage_perc"), began.Add(d), c.kv)
			s.add(named("vllm:generation_tokens_total"), began.Add(d), float64(i)*1e6+c.rate*d.Seconds())
		}
	}
	for _, pool := range []string{"", "vllm-llama"} {
		t.Run("pool "+pool, func(t *testing.T) { fourMoments(t, s, state.Scope{Namespace: "llm", Pool: pool}, labels["pod"]) })
	}
}

func fourMoments(t *testing.T, s *store, scope state.Scope, pod string) {
	t.Helper()
	f := &fakeAPI{t: t, store: s}
	r := read(t, f, scope, Config{})
	for signal, want := range map[string]string{"kv_usage": "0.9 0.2 0.3 0.4", "generation_tokens_rate": "90 20 30 40"} {
		x := find(r, signal, pod)
		if x == nil || x.Baseline == nil || x.DayAgo == nil || x.WeekAgo == nil {
			t.Fatalf("%s: %+v", signal, x)
		}
		if got := fmt.Sprintf("%.6g %.6g %.6g %.6g", x.Value, *x.Baseline, *x.DayAgo, *x.WeekAgo); got != want {
			t.Errorf("%s now and an hour, a day and a week ago: %s, want %s", signal, got, want)
		}
	}
	if len(f.queries) > queriesUncached {
		t.Errorf("%d queries", len(f.queries))
	}
}

// Old data may be in a slow store. If they are missing, the hour before the onset still arrives.
func TestMissingOldDataKeepsCurrentValues(t *testing.T) {
	r := read(t, &fakeAPI{t: t, store: fleet(), refuse: "offset 6d"}, state.Scope{Namespace: "llm"}, Config{})
	x := find(r, "kv_usage", "vllm-llama-7d9f8b6c5-aaaa1")
	if x == nil || x.Baseline == nil || *x.Baseline != 0.5 {
		t.Errorf("%+v", x)
	}
	var names []string
	for _, n := range r.Notes {
		names = append(names, n.Signal)
	}
	if got := strings.Join(names, " "); got != "day_ago week_ago" || len(r.Failed) > 0 {
		t.Errorf("notes on %q, failed %v", got, r.Failed)
	}
}
