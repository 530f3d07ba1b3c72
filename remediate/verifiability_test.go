package remediate_test

import (
	"strings"
	"testing"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// First tokens show whether a raised cap helps. For a lowered cap they show only harm. Without
// preemptions and the cache's use nothing would show that it helped.
func TestUnverifiableRemedyIsDenied(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.sick = func(pod string, seqs int) map[string]float64 {
		v := exhausted(pod, seqs)
		delete(v, "kv_usage")
		delete(v, "preemption_rate")
		return v
	}
	a := w.plan()
	w.wantDenied(a, "verifiability")
	for _, g := range a.Guards {
		if g.Guard == "verifiability" && !strings.Contains(g.Reason, "no fresh value or no baseline of preemption_rate, kv_usage") {
			t.Errorf("it does not name what is missing: %s", g.Reason)
		}
	}
}

// A metric of one cause verifies no other cause: the tokens of a hung engine do not show a leak.
func TestForeignMetricVerifiesNothing(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.sick = func(pod string, seqs int) map[string]float64 {
		v := map[string]float64{"generation_tokens_rate": 400, "gpu_fb_used": 70000, "ttft_p95": 1, "error_rate": 0}
		v["kv_idle_usage"] = leaking(pod, seqs)["kv_idle_usage"]
		return v
	}
	w.wantDenied(w.plan(), "verifiability")
	w.in.Diagnosis.Cause = "engine_hang"
	w.in.Diagnosis.Findings = []state.Finding{{Signal: "generation_tokens_rate", Pod: "vllm-llama-1", Weight: 13}}
	for _, g := range w.plan().Guards {
		if g.Guard == "verifiability" && g.Decision != state.Allow {
			t.Errorf("of its own cause: %s", g.Reason)
		}
	}
}
