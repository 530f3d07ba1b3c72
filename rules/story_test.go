package rules

import (
	"slices"
	"strings"
	"testing"

	"paramedic/state"
)

func TestATitleWithinASentence(t *testing.T) {
	for title, want := range map[string]string{
		"Queue grows": "queue grows", "KV cache is full": "KV cache is full", "A worker is down": "a worker is down", "Überlast": "überlast",
		"ÜÖ": "ÜÖ", "負荷が高い": "負荷が高い", "": "",
	} {
		if got := midSentence(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}

// A text is told in every case in which its condition holds, and has to be true in each: here the one at the edge.
func TestTextsAreTrueAtTheEdgeOfTheirConditions(t *testing.T) {
	c := mustLoadOnce()
	entity := state.Entity{Cluster: "prod", Namespace: "llm", Model: "llama", Pool: "vllm", Pod: "vllm-0"}
	ev := state.Evidence{At: caseTime, Workers: []state.Worker{{Namespace: "llm", Pod: "vllm-0", Pool: "vllm", PoolKind: "Deployment", Model: "llama"}}}
	for signal, v := range map[string]float64{
		"kv_usage": 0.2, "kv_blocks_total": 1000, "kv_block_size": 16, "requests_running": 1, "prompt_length_mean": 10, "output_length_mean": 10, // 3200 tokens for 20
		"preemption_rate": 0.03, "requests_waiting": 4, "ttft_p95": 0.9, "itl_p95": 0.02, "container_memory_slope": 100, "error_rate": 0.015, "gateway_error_ratio": 0.2,
	} {
		base := v
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, Entity: entity, At: caseTime, Baseline: &base})
	}
	in := &state.Incident{Cluster: "prod", Scope: state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama", Pool: "vllm"},
		Symptoms: []state.SymptomCount{{Symptom: "queue_buildup"}, {Symptom: "kv_pressure", Rules: []string{"KVFull"}}}}
	var texts []string
	for _, cause := range c.Causes() {
		v := newView(in, in.Scope, &ev, c)
		w := cause.weigh(v, in, c)
		for _, f := range w.findings(c, ev.At) {
			texts = append(texts, f.Text)
			if f.Why == "" {
				t.Errorf("%s: %q does not say why it weighs %+g", cause.ID, f.Text, f.Weight)
			}
		}
		v.release()
	}
	all := strings.Join(texts, "\n")
	for _, untrue := range []string{"Running requests account", "Nothing is preempted", "Nobody waits", "No queue", "Nothing queues", "no queue", "the restarted one", "no engine reports",
		"Alert: Requests queue"} {
		if strings.Contains(all, untrue) {
			t.Errorf("%q is told, which is not so:\n%s", untrue, all)
		}
	}
	for _, want := range []string{"Hardly anybody waits (4 at most)", "Hardly anything is preempted (0.03/s at most)", "Seen: Requests queue up", "Alert: KV cache is nearly full"} {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not told:\n%s", want, all)
		}
	}
}
