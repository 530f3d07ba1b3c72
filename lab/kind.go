package lab

import (
	"fmt"
	"slices"
	"strings"
)

// A Kind is the software that a pool runs, and so what it exports and how it is told its settings. What happens to requests is the same;
// see docs/lab.md for what differs.
type Kind string

// The kinds.
const (
	VLLM   Kind = "vllm"   // vLLM V1 behind llm-d's endpoint picker
	SGLang Kind = "sglang" // SGLang with --enable-metrics behind llm-d's endpoint picker
	Dynamo Kind = "dynamo" // vLLM workers and the frontend of NVIDIA Dynamo
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{VLLM, SGLang, Dynamo} }

// title is the kind as the names of rules begin.
func (k Kind) title() string {
	return map[Kind]string{VLLM: "VLLM", SGLang: "SGLang", Dynamo: "Dynamo"}[k]
}

// Title is the kind as people write it.
func (k Kind) Title() string {
	return map[Kind]string{VLLM: "vLLM", SGLang: "SGLang", Dynamo: "Dynamo"}[k]
}

// ParseKind finds a kind by its name.
func ParseKind(name string) (Kind, error) {
	k := Kind(strings.ToLower(name))
	if !slices.Contains(Kinds(), k) {
		return "", fmt.Errorf("engine %q is unknown: use one of %v", name, Kinds())
	}
	return k, nil
}

// A trade is what is usual where a kind is deployed.
type trade struct {
	container, job string
	port           int    // of the metrics
	pool, model    string // unless the config says otherwise
	// The images that a template can name: what runs, what nobody has pushed, and what starts well and answers badly.
	good, missing, flawed string
	dead                  string // what the engine writes at its end
}

func (k Kind) trade() trade {
	const vllmDead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
	switch k {
	case SGLang:
		return trade{
			container: "sglang", job: "sglang", port: 30000, pool: "sglang-llama", model: "llama-70b",
			good: "lmsysorg/sglang:v0.5.7", missing: "lmsysorg/sglang:v0.5.8-hotfix", flawed: "lmsysorg/sglang:v0.5.8",
			dead: "Scheduler hit an exception: Traceback (most recent call last)\nReceived sigquit from a child process. It usually means the child failed.",
		}
	case Dynamo: // the operator names every worker's container main, and gives its system port 9090
		return trade{
			container: "main", job: "dynamo-worker", port: 9090, pool: "dynamo-llama", model: "Llama-3.3-70B-Instruct",
			good: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0", missing: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1-hotfix", flawed: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1",
			dead: vllmDead,
		}
	}
	return trade{
		container: "vllm", job: "vllm", port: 8000, pool: "vllm-llama", model: "llama-70b",
		good: "vllm/vllm-openai:v0.23.0", missing: "vllm/vllm-openai:v0.24.0-hotfix", flawed: "vllm/vllm-openai:v0.24.0",
		dead: vllmDead,
	}
}

// sglangFlags are how SGLang calls what vLLM calls by the names on the left. What has no counterpart is left out.
var sglangFlags = map[string]string{
	"max-num-seqs": "max-running-requests", "max-num-batched-tokens": "chunked-prefill-size", "gpu-memory-utilization": "mem-fraction-static",
	"max-model-len": "context-length", "tensor-parallel-size": "tp-size", "no-enable-prefix-caching": "disable-radix-cache", "model": "model-path",
}

// flag is the kind's name of one of vLLM's flags.
func (k Kind) flag(name string) string {
	if as := sglangFlags[name]; k == SGLang && as != "" {
		return as
	}
	return name
}

// vllmFlag is vLLM's name of one of the kind's flags.
func (k Kind) vllmFlag(name string) string {
	for v, as := range sglangFlags {
		if k == SGLang && as == name {
			return v
		}
	}
	return name
}

// tell puts a story in the kind's words.
func (k Kind) tell(story string) string {
	if k != SGLang {
		return story
	}
	return strings.NewReplacer("max_num_seqs", "max_running_requests", "gpu_memory_utilization", "mem_fraction_static", "preempt", "retract").Replace(story)
}

// As is the scenario with another kind of engine.
func (s Scenario) As(k Kind) Scenario {
	s.Config.Kind = k
	s.Story = k.tell(s.Story)
	if rest, ok := strings.CutPrefix(s.Config.Pool, string(VLLM)+"-"); ok {
		s.Config.Pool = string(k) + "-" + rest
	}
	if k == Dynamo && slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Name == GatewayFailure }) {
		s.Story = "The frontend loses its connection to the request plane: it fails every request, while four healthy workers idle."
	}
	return s
}
