package drill

import (
	"slices"
	"strings"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

// translate replaces vLLM's terms in a story by the kind's.
func translate(story string, k engine.Kind) string {
	switch k {
	case engine.SGLang:
		return strings.NewReplacer("max_num_seqs", "max_running_requests", "gpu_memory_utilization",
			"mem_fraction_static", "preempt", "retract").Replace(story)
	case engine.TRTLLM:
		return strings.NewReplacer("max_num_seqs", "max_batch_size", "gpu_memory_utilization",
			"kv_cache_free_gpu_memory_fraction", "preemption", "pause", "preempted", "paused").Replace(story)
	}
	return story
}

// As returns the scenario with another kind of engine.
func (s Scenario) As(k engine.Kind) Scenario {
	s.Config.Kind = k
	s.Story = translate(s.Story, k)
	if rest, ok := strings.CutPrefix(s.Config.Pool, string(engine.VLLM)+"-"); ok {
		s.Config.Pool = string(k) + "-" + rest
	}
	blind := func(f lab.Fault) bool { return f.Name == lab.GatewayFailure && f.Plot == nil }
	if k == engine.Dynamo && slices.ContainsFunc(s.Faults, blind) {
		s.Story = "The frontend loses its connection to the request plane. It fails every request, while four " +
			"healthy workers idle."
	}
	return s
}

// Replay returns the scenario with a trace's requests, as [traffic.Workload.Replay] plays them. The
// scenario sets their mean lengths and the load, because its fleet, rules and faults are chosen for
// them.
func (s Scenario) Replay(t traffic.Trace) Scenario {
	s.Config.Workload = s.Config.Workload.Replay(t, s.Config.Seed)
	return s
}
