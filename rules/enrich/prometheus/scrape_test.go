package prometheus

import (
	"math"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// newest returns the last point of the series, unless it is a stale marker.
func (s *tsSeries) newest(t time.Time) (tsPoint, bool) {
	p := pointsIn(s.points, t.Add(-5*time.Minute), t)
	if len(p) == 0 || value.IsStaleNaN(p[len(p)-1].v) {
		return tsPoint{}, false
	}
	return p[len(p)-1], true
}

// unmarked returns the points of a range without stale markers.
func unmarked(points []tsPoint) []tsPoint {
	return slices.DeleteFunc(slices.Clone(points), func(p tsPoint) bool { return value.IsStaleNaN(p.v) })
}

// slow and quick are pods of a pool with different last scrapes.
const (
	slow  = "vllm-llama-7d9f8b6c5-aaaaa"
	quick = "vllm-llama-7d9f8b6c5-bbbbb"
)

var lately = map[string]time.Duration{slow: 100 * time.Second, quick: 5 * time.Second}

// staggered returns a pool of slow and quick.
func staggered() *store {
	w := world{store: &store{}}
	for pod, ago := range lately {
		for at := now.Add(-70*time.Minute - ago); !at.After(now.Add(-ago)); at = at.Add(30 * time.Second) {
			n := at.Sub(now.Add(-2 * time.Hour)).Seconds()
			engine := func(name string, v float64, more ...string) {
				w.add(at, v, append([]string{"__name__", name, "namespace", "llm", "pod", pod, "instance", pod + ":8000", "job", "vllm",
					"model_name", "llama"}, more...)...)
			}
			engine("vllm:num_requests_running", 3)
			engine("vllm:kv_cache_usage_perc", 0.5)
			engine("vllm:num_preemptions_total", n)
			for _, le := range []string{"0.5", "1", "+Inf"} {
				engine("vllm:time_to_first_token_seconds_bucket", n, "le", le)
			}
			engine("vllm:request_prompt_tokens_sum", 100*n)
			engine("vllm:request_prompt_tokens_count", n)
		}
	}
	return w.store
}

func freshly(t *testing.T, s *store, onset time.Time) (enrich.Reading, *fakeAPI) {
	t.Helper()
	f := &fakeAPI{t: t, store: s}
	client, err := New(Config{URL: f.serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama"}, onset, now)
	q.Fresh = true
	return client.Read(t.Context(), q), f
}

// A drain may use only values that were scraped after the isolation of the worker, not values that
// were queried after it.
func TestFreshValuesHaveTheirScrapeTime(t *testing.T) {
	for name, onset := range map[string]time.Time{"young": now.Add(-10 * time.Minute), "old": now.Add(-10 * time.Hour)} {
		r, f := freshly(t, staggered(), onset)
		for _, signal := range []string{"requests_running", "kv_usage", "preemption_rate", "ttft_p95", "prompt_length_mean"} {
			for pod, ago := range lately {
				if s := find(r, signal, pod); s == nil || !s.At.Equal(now.Add(-ago)) {
					t.Errorf("%s: %s of %s: %+v, want it of %s before", name, signal, pod, s, ago)
				}
			}
		}
		for _, signal := range []string{"ttft_p95", "prompt_length_mean"} {
			if s := find(r, signal, ""); s == nil || !s.At.Equal(now.Add(-lately[slow])) {
				t.Errorf("%s: %s of the pool: %+v, want it as old as its oldest part", name, signal, s)
			}
		}
		if n := len(f.asked); n > 1+unionsNow || slices.ContainsFunc(f.asked, func(v url.Values) bool { return v.Has("step") }) {
			t.Errorf("%s: %d queries, or one of the past", name, n)
		}
	}
}

// A page that disappeared is marked as stale. Its rates continue for minutes, and describe a worker
// that is gone.
func TestFreshValueOfStalePageIsMissing(t *testing.T) {
	s := staggered()
	for _, sr := range s.series {
		if sr.labels["pod"] == quick {
			s.add(sr.labels, now.Add(-time.Second), math.Float64frombits(value.StaleNaN))
		}
	}
	r, _ := freshly(t, s, now.Add(-10*time.Minute))
	for _, signal := range []string{"requests_running", "preemption_rate", "ttft_p95", "prompt_length_mean"} {
		if s := find(r, signal, quick); s != nil {
			t.Errorf("%s of a page that went away: %+v", signal, s)
		}
		if s := find(r, signal, slow); s == nil {
			t.Errorf("%s of the page beside it is missing", signal)
		}
	}
}

// If the second page of a worker gives no number, the first page's value is not the worker's.
func TestFreshValueWithMissingPartIsMissing(t *testing.T) {
	for name, v := range map[string]float64{"NaN": math.NaN(), "Inf": math.Inf(1)} {
		s := staggered()
		s.add(map[string]string{"__name__": "vllm:num_requests_running", "namespace": "llm", "pod": quick, "instance": quick + ":8001",
			"job": "vllm", "model_name": "llama"}, now.Add(-time.Second), v)
		r, _ := freshly(t, s, now.Add(-10*time.Minute))
		if s := find(r, "requests_running", quick); s != nil {
			t.Errorf("%s: %+v", name, s)
		}
		if s := find(r, "requests_running", slow); s == nil {
			t.Errorf("%s: the other worker's is missing", name)
		}
	}
}

func TestFreshValueOfTwoPagesHasTheOlderTime(t *testing.T) {
	s := staggered()
	old := now.Add(-2 * time.Minute)
	s.add(map[string]string{"__name__": "vllm:num_requests_running", "namespace": "llm", "pod": quick, "instance": quick + ":8001",
		"job": "vllm", "model_name": "llama"}, old, 4)
	r, _ := freshly(t, s, now.Add(-10*time.Minute))
	if s := find(r, "requests_running", quick); s == nil || s.Value != 7 || !s.At.Equal(old) {
		t.Errorf("%+v", s)
	}
}
