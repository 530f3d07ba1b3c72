package verify

import (
	"testing"

	"paramedic/state"
)

func TestSignalsAreShownByTitle(t *testing.T) {
	titles := Titles{"preemption_rate": "Preemptions", "kv_usage": "KV cache in use"}
	if got := titles.List([]string{"preemption_rate", "kv_usage", "ttft_p95"}); got != "preemptions, KV cache in use, ttft_p95" {
		t.Error(got)
	}
	metrics := titles.Name([]Metric{{Signal: "preemption_rate", Unit: "1/s", Better: .2, Noise: .05}})
	a := &state.Action{Verify: state.Verification{Leading: []string{"preemption_rate"}, Baseline: map[string]float64{"preemption_rate": 1.6},
		Samples: map[string][]float64{"preemption_rate": {0, 0, 0}}}}
	if verdict, text := Judge(a, metrics, 3, true); verdict != state.Better || text != "preemptions 1.6/s → 0/s" {
		t.Errorf("%s: %s", verdict, text)
	}
	if verdict, text := Judge(a, metrics, 4, true); verdict != state.Inconclusive || text != "every signal that would show an improvement has fewer than 4 samples" {
		t.Errorf("%s: %s", verdict, text)
	}
}
