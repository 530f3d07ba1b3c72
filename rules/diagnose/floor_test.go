package diagnose

import (
	"strings"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Tokens that come many times slower than before are no sign if they are still faster than people
// read.
func TestFastTokensAreNoSign(t *testing.T) {
	c := rulestest.MustLoad(t)
	signs := func(gap float64) map[string]bool { // time between tokens, in seconds; 17 times the baseline
		out := map[string]bool{}
		for running := range map[float64]bool{20: true, 24: true, 100: true} {
			for _, moved := range []string{"", "prompt_length_mean", "prompt_length_p95", "generation_tokens_rate"} {
				u := &users{}
				u.pool("chat")
				u.drop("", "itl_p95")
				for signal, v := range map[string]float64{"itl_p50": gap, "itl_p95": gap, "arrival_rate": 1, "abort_rate": 0, "finish_rate": 1,
					"prompt_length_mean": 1000, "prompt_length_p95": 2000, "kv_usage": 0.5, "rollout_age": 600, "pod_age": 600} {
					for _, pod := range []string{"chat-0", "chat-1"} {
						before := v
						if v == gap {
							before = gap / 17
						}
						u.ev.Samples = append(u.ev.Samples, state.Sample{Signal: signal, Value: v, Baseline: &before, At: rulestest.Now,
							Entity: state.Entity{Namespace: "llm", Pool: "chat", Pod: pod, Model: "m"}})
					}
				}
				u.set("", "requests_running", running)
				u.of("", moved, func(s *state.Sample) { s.Value = 4 * *s.Baseline })
				in := &state.Incident{ID: "INC-1", StartedAt: rulestest.Now.Add(-700e9), Scope: state.Scope{Namespace: "llm", Pool: "chat"}}
				v := evidence.ArrangeScope(in, in.Scope, &u.ev, c)
				for _, cause := range c.Causes() {
					for _, e := range cause.Evidence {
						if strings.HasPrefix(e.Signal, "itl_p") && len(v.Ask(e.Condition, e.Per).Hits) > 0 {
							out[string(cause.ID)+": "+e.Text] = true
						}
					}
				}
				v.Release()
			}
		}
		return out
	}
	if slow := signs(0.2); len(slow) < 7 {
		t.Errorf("200 ms between tokens: only %v", slow)
	}
	for sign := range signs(0.02) {
		if !strings.Contains(sign, "keep their speed") {
			t.Errorf("20 ms between tokens: %s", sign)
		}
	}
}
