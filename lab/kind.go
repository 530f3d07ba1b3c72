package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Kind is the serving software of a pool. It sets the exported metrics and the names of flags.
// Requests are handled almost alike; docs/lab.md lists the differences.
type Kind string

// The kinds.
const (
	VLLM   Kind = "vllm"   // vLLM V1 behind llm-d's endpoint picker
	SGLang Kind = "sglang" // SGLang with --enable-metrics behind llm-d's endpoint picker
	Dynamo Kind = "dynamo" // vLLM workers and the frontend of NVIDIA Dynamo
	TRTLLM Kind = "trtllm" // TensorRT-LLM's trtllm-serve behind llm-d's endpoint picker
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{VLLM, SGLang, Dynamo, TRTLLM} }

// RulePrefix returns the start of the names of the kind's alert rules.
func (k Kind) RulePrefix() string {
	return map[Kind]string{VLLM: "VLLM", SGLang: "SGLang", Dynamo: "Dynamo", TRTLLM: "TRTLLM"}[k]
}

// Title returns the kind's name for people.
func (k Kind) Title() string {
	return map[Kind]string{VLLM: "vLLM", SGLang: "SGLang", Dynamo: "Dynamo", TRTLLM: "TensorRT-LLM"}[k]
}

// Job returns the Prometheus job that scrapes the kind's workers.
func (k Kind) Job() string { return k.defaults().job }

// Container returns the name of the container that a worker's engine runs in.
func (k Kind) Container() string { return k.defaults().container }

// ParseKind returns the kind with a name.
func ParseKind(name string) (Kind, error) {
	k := Kind(strings.ToLower(name))
	if !slices.Contains(Kinds(), k) {
		return "", fmt.Errorf("engine %q is unknown: use one of %s", name, joined(Kinds()))
	}
	return k, nil
}

// engineDefaults holds a kind's usual names and images.
type engineDefaults struct {
	container, job string
	port           int    // of the metrics
	pool, model    string // unless the config says otherwise
	// Images: the one that runs, one that does not exist, and one that starts but fails requests.
	good, missing, flawed string
	dead                  string // the engine's last log line
}

func (k Kind) defaults() engineDefaults {
	const vllmDead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace " +
		"(above) for the root cause."
	switch k {
	case SGLang:
		return engineDefaults{
			container: "sglang", job: "sglang", port: 30000, pool: "sglang-llama", model: "llama-70b",
			good: "lmsysorg/sglang:v0.5.7", missing: "lmsysorg/sglang:v0.5.8-hotfix", flawed: "lmsysorg/sglang:v0.5.8",
			dead: "Scheduler hit an exception: Traceback (most recent call last)\nReceived sigquit from a child process. It usually " +
				"means the child failed.",
		}
	case Dynamo: // the operator names every worker's container main and its system port 9090
		return engineDefaults{
			container: "main", job: "dynamo-worker", port: 9090, pool: "dynamo-llama", model: "Llama-3.3-70B-Instruct",
			good: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0", missing: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1-hotfix",
			flawed: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1",
			dead:   vllmDead,
		}
	case TRTLLM:
		return engineDefaults{
			container: "trtllm", job: "trtllm", port: 8000, pool: "trtllm-llama", model: "llama-70b",
			good: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0", missing: "nvcr.io/nvidia/tensorrt-llm/release:1.3.1-hotfix",
			flawed: "nvcr.io/nvidia/tensorrt-llm/release:1.3.1",
			dead:   "RuntimeError: Executor worker returned error",
		}
	}
	return engineDefaults{
		container: "vllm", job: "vllm", port: 8000, pool: "vllm-llama", model: "llama-70b",
		good: "vllm/vllm-openai:v0.23.0", missing: "vllm/vllm-openai:v0.24.0-hotfix", flawed: "vllm/vllm-openai:v0.24.0",
		dead: vllmDead,
	}
}

// flags maps vLLM's flags to those of other kinds, if they have one.
var flags = map[Kind]map[string]string{
	SGLang: {
		"max-num-seqs": "max-running-requests", "max-num-batched-tokens": "chunked-prefill-size",
		"gpu-memory-utilization": "mem-fraction-static",
		"max-model-len":          "context-length", "tensor-parallel-size": "tp-size", "no-enable-prefix-caching": "disable-radix-cache",
		"model": "model-path",
	},
	TRTLLM: {
		"max-num-seqs": "max_batch_size", "max-num-batched-tokens": "max_num_tokens",
		"gpu-memory-utilization": "kv_cache_free_gpu_memory_fraction",
		"max-model-len":          "max_seq_len", "tensor-parallel-size": "tp_size",
	},
}

// flag returns the kind's name of one of vLLM's flags.
func (k Kind) flag(name string) string {
	return cmp.Or(flags[k][name], name)
}

// vllmFlag returns vLLM's name of one of the kind's flags, written with hyphens or underscores.
func (k Kind) vllmFlag(name string) string {
	name = hyphens(name)
	for v, as := range flags[k] {
		if hyphens(as) == name {
			return v
		}
	}
	return name
}

func hyphens(flag string) string { return strings.ReplaceAll(flag, "_", "-") }

// translate replaces vLLM's terms in a story by the kind's.
func (k Kind) translate(story string) string {
	switch k {
	case SGLang:
		return strings.NewReplacer("max_num_seqs", "max_running_requests", "gpu_memory_utilization",
			"mem_fraction_static", "preempt", "retract").Replace(story)
	case TRTLLM:
		return strings.NewReplacer("max_num_seqs", "max_batch_size", "gpu_memory_utilization",
			"kv_cache_free_gpu_memory_fraction", "preemption", "pause", "preempted", "paused").Replace(story)
	}
	return story
}

// As returns the scenario with another kind of engine.
func (s Scenario) As(k Kind) Scenario {
	s.Config.Kind = k
	s.Story = k.translate(s.Story)
	if rest, ok := strings.CutPrefix(s.Config.Pool, string(VLLM)+"-"); ok {
		s.Config.Pool = string(k) + "-" + rest
	}
	if k == Dynamo && slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Name == GatewayFailure && f.Plot == nil }) {
		s.Story = "The frontend loses its connection to the request plane. It fails every request, while four " +
			"healthy workers idle."
	}
	return s
}
