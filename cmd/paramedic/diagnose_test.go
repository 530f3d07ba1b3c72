package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules"
	"paramedic/state"
)

// A pool is healthy when enough was measured to say so, and what was not measured is said with its reason.
func TestWhatWasNotMeasuredIsNotHealth(t *testing.T) {
	sample := func(signal string, v float64) state.Sample {
		return state.Sample{Signal: signal, Value: v, Entity: state.Entity{Model: "llama", Instance: "10.0.0.1:8000"}}
	}
	for _, c := range []struct {
		name    string
		samples []state.Sample
		want    rules.HealthStatus
		closing string
	}{
		{"an idle engine has no latency", []state.Sample{sample("kv_usage", 0), sample("requests_waiting", 0)}, rules.Healthy, "Nothing is wrong that could be seen, as far as it was measured."},
		{"hardly anything", []state.Sample{sample("requests_waiting", 0)}, rules.HealthUnknown, "Too little was measured to say that nothing is wrong."},
		{"one bad sign is enough", []state.Sample{sample("kv_usage", 0.97)}, rules.HealthCritical, "No symptom of trouble yet, but not all is well: see the HEALTH of its pools."},
	} {
		f := foundFleet{Pools: judged(rules.Health("default", state.Evidence{Samples: c.samples})),
			Missing: []state.Missing{{Signal: "gpu_util", Reason: "no DCGM"}, {Signal: "ttft_p95", Reason: "no requests"}, {Signal: "error_rate", Reason: "no requests"}}}
		if len(f.Pools) != 1 || f.Pools[0].Overall != c.want {
			t.Errorf("%s: %+v", c.name, f.Pools)
		}
		if got := f.closing(); got != c.closing {
			t.Errorf("%s: %s", c.name, got)
		}
		if c.want == rules.Healthy {
			want := []string{"llama: not measured: latency, errors (no requests)", "llama: not measured: GPU (no DCGM)"}
			if d := cmp.Diff(want, f.unmeasured()); d != "" {
				t.Error(d)
			}
		}
	}
}
