package rules

import (
	"testing"

	"paramedic/state"
)

func TestBottleneckSaysWhereTheTimeGoes(t *testing.T) {
	c := mustLoad(t)
	base := map[string]float64{"queue_time_mean": .1, "prefill_time_mean": .3, "decode_time_mean": 3, "itl_p50": .02, "itl_p95": .04, "prefix_hit_ratio": .5,
		"ttft_p95": .5, "queue_time_p95": .2}
	for name, tc := range map[string]struct {
		now   map[string]float64
		class BottleneckClass
		says  string
	}{
		"waiting":             {map[string]float64{"queue_time_mean": 4, "ttft_p95": 9, "queue_time_p95": 8}, BottleneckQueue, "first token and queue are late and decoding is as before: overload, or large prefills"},
		"nothing is reused":   {map[string]float64{"prefill_time_mean": 4, "prefix_hit_ratio": .02, "ttft_p95": 9}, BottleneckNoCache, "first tokens are late without a queue: slow prefill, or less reuse of prefixes"},
		"long prompts":        {map[string]float64{"prefill_time_mean": 4, "ttft_p95": 9}, BottleneckPrefill, "first tokens are late without a queue: slow prefill, or less reuse of prefixes"},
		"slow decoding":       {map[string]float64{"decode_time_mean": 40, "itl_p50": .08, "itl_p95": .16}, BottleneckDecode, "only the gaps between tokens have grown: slow decoding"},
		"stutter":             {map[string]float64{"itl_p95": .3}, BottleneckSpikes, "only the gaps between tokens have grown: slow decoding"},
		"severe saturation":   {map[string]float64{"queue_time_mean": 9, "ttft_p95": 20, "queue_time_p95": 15, "itl_p50": .1, "itl_p95": .2}, BottleneckQueue, "first token, queue and gaps between tokens are all late: severe saturation"},
		"a usual hour":        {map[string]float64{"queue_time_mean": .2}, BottleneckBalanced, "latencies are as before"},
		"no histogram at all": {map[string]float64{"queue_time_mean": -1, "queue_time_p95": -1}, BottleneckUnmeasured, ""},
	} {
		ev := &state.Evidence{At: caseTime}
		for signal, was := range base {
			v, changed := tc.now[signal]
			if !changed {
				v = was
			}
			if v >= 0 {
				ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: v, Baseline: &was, At: caseTime})
			}
		}
		got := c.Bottleneck(state.Scope{Namespace: "llm", Pool: "p"}, ev)
		if got.Class != tc.class || got.Reading != tc.says {
			t.Errorf("%s: %s, %q", name, got.Class, got.Reading)
		}
	}
}
