package diagnose

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A text is shown whenever its condition holds, so it has to be true at the condition's threshold.
func TestTextMatchesConditionAtThresholds(t *testing.T) {
	c := rulestest.MustLoad(t)
	entity := state.Entity{Cluster: "prod", Namespace: "llm", Model: "llama", Pool: "vllm", Pod: "vllm-0"}
	ev := state.Evidence{
		At: rulestest.Now, Workers: []state.Worker{{Namespace: "llm", Pod: "vllm-0", Pool: "vllm", PoolKind: "Deployment", Model: "llama"}}}
	for signal, v := range map[string]float64{
		// 3200 tokens for 20.
		"kv_usage": 0.2, "kv_blocks_total": 1000, "kv_block_size": 16, "requests_running": 1, "prompt_length_mean": 10,
		"output_length_mean": 10,
		"preemption_rate":    0.03, "requests_waiting": 4, "ttft_p95": 0.9, "itl_p95": 0.02, "container_memory_slope": 100,
		"error_rate": 0.015, "gateway_error_ratio": 0.2,
		"generation_tokens_rate": 0,
	} {
		base := v
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, Entity: entity, At: rulestest.Now, Baseline: &base})
	}
	in := &state.Incident{Cluster: "prod", Scope: state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama", Pool: "vllm"},
		Symptoms: []state.SymptomCount{{Symptom: "queue_buildup"}, {Symptom: "kv_pressure", Rules: []string{"KVFull"}}}}
	var texts []string
	for _, cause := range c.Causes() {
		v := evidence.ArrangeScope(in, in.Scope, &ev, c)
		w := weighCause(cause, v, signs(c, in), c, new(scratch))
		for _, f := range w.findings(c, ev.At) {
			texts = append(texts, f.Text)
			if f.Why == "" {
				t.Errorf("%s: %q does not say why it weighs %+g", cause.ID, f.Text, f.Weight)
			}
		}
		v.Release()
	}
	all := strings.Join(texts, "\n")
	for _, untrue := range []string{"Running requests account", "Nothing is preempted", "Nobody waits", "No request waits", "none waits", "No queue", "Nothing queues",
		"no queue", "the restarted one", "no engine reports",
		"Alert: Requests queue"} {
		if strings.Contains(all, untrue) {
			t.Errorf("%q is told, which is not so:\n%s", untrue, all)
		}
	}
	for _, want := range []string{"Few requests wait (4 at most)", "Almost no preemptions (at most 0.03/s on one worker)",
		"vllm-0 generates no tokens while 1 request runs", "Seen: Requests queue up", "Alert: KV cache is nearly full"} {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not told:\n%s", want, all)
		}
	}
}

// Without a past, the consequence of a change is no verdict. Each change that may have caused it is
// listed with its sign.
func TestPossibleRootsAreListedWithoutBaseline(t *testing.T) {
	c := rulestest.MustLoad(t)
	at := rulestest.Now
	ev := state.Evidence{At: at, Workers: []state.Worker{{Namespace: "llm", Pod: "vllm-0", Pool: "vllm", Model: "llama"}}}
	add := func(signal string, v float64, before *float64) {
		e := state.Entity{Namespace: "llm", Pool: "vllm", Model: "llama", Pod: "vllm-0"}
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: e, Value: v, Baseline: before, At: at})
	}
	now := map[string]float64{"kv_usage": 0.99, "requests_waiting": 20, "requests_running": 60, "preemption_rate": 2, "arrival_rate": 6,
		"abort_rate":  0,
		"finish_rate": 5, "prompt_length_mean": 1400, "prompt_length_p95": 3600, "output_length_mean": 400, "prefix_hit_ratio": 0.3,
		"ttft_p95": 6, "itl_p95": 0.2, "itl_p50": 0.05,
		"generation_tokens_rate": 2000, "kv_blocks_total": 8000, "kv_block_size": 16}
	in := state.Incident{Scope: state.Scope{Namespace: "llm", Pool: "vllm", Model: "llama"},
		Symptoms: []state.SymptomCount{{Symptom: "kv_pressure", Alerts: 1, Rules: []string{"KVFull"}},
			{Symptom: "ttft_high", Alerts: 1, Rules: []string{"TTFTHigh"}}}}
	for _, signal := range slices.Sorted(maps.Keys(now)) {
		add(signal, now[signal], nil)
	}
	d := Diagnose(c, &in, &ev, at)
	if d.Cause != state.Unknown || d.Alternatives[0].Cause != "kv_exhaustion" || d.Alternatives[0].Confidence > 0.5 {
		t.Fatalf("%s; %+v", d.Cause, d.Alternatives)
	}
	for _, line := range d.Story.Do {
		if len([]rune(line)) > 300 { // the limit of a line in a message
			t.Errorf("%d characters: %s", len([]rune(line)), line)
		}
	}
	do := strings.Join(d.Story.Do, "\n")
	for _, root := range []string{"traffic_surge", "long_context_burst", "prefix_cache_collapse"} {
		if name := state.Cause(root).Words(); !strings.Contains(d.Story.Why, name) || !strings.Contains(do, name) {
			t.Errorf("%s is not named: %s\n%s", root, d.Story.Why, do)
		}
	}
	// The same with a past in which only the cache differed.
	ev.Samples = nil
	for _, signal := range slices.Sorted(maps.Keys(now)) {
		before := now[signal]
		if signal == "kv_usage" || signal == "preemption_rate" || signal == "requests_waiting" || strings.HasPrefix(signal, "ttft") {
			before /= 10
		}
		add(signal, now[signal], &before)
	}
	if d := Diagnose(c, &in, &ev, at); d.Cause != "kv_exhaustion" {
		t.Errorf("with a past: %s; %s", d.Cause, d.Story.Why)
	}
}
