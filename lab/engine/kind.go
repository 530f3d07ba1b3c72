package engine

import (
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
func (k Kind) Job() string { return k.Defaults().Job }

// Container returns the name of the container that a worker's engine runs in.
func (k Kind) Container() string { return k.Defaults().Container }

// ParseKind returns the kind with a name.
func ParseKind(name string) (Kind, error) {
	k := Kind(strings.ToLower(name))
	if !slices.Contains(Kinds(), k) {
		return "", fmt.Errorf("engine %q is unknown: use one of %s", name, names())
	}
	return k, nil
}

// names returns the kinds' names, for people.
func names() string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// Defaults holds a kind's usual names and images.
type Defaults struct {
	Container, Job string // of a worker's engine, and of the Prometheus job that scrapes it
	Port           int    // of the metrics
	Pool, Model    string // the Deployment's and the model's name
	// Images: the one that runs, one that does not exist, and one that starts but fails requests.
	Good, Missing, Flawed string
	Dead                  string // the engine's last log line
}

// Defaults returns the kind's usual names and images. An unknown kind has those of vLLM.
func (k Kind) Defaults() Defaults {
	const vllmDead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace " +
		"(above) for the root cause."
	switch k {
	case SGLang:
		return Defaults{
			Container: "sglang", Job: "sglang", Port: 30000, Pool: "sglang-llama", Model: "llama-70b",
			Good: "lmsysorg/sglang:v0.5.7", Missing: "lmsysorg/sglang:v0.5.8-hotfix", Flawed: "lmsysorg/sglang:v0.5.8",
			Dead: "Scheduler hit an exception: Traceback (most recent call last)\nReceived sigquit from a child process. It usually " +
				"means the child failed.",
		}
	case Dynamo: // the operator names every worker's container main and its system port 9090
		return Defaults{
			Container: "main", Job: "dynamo-worker", Port: 9090, Pool: "dynamo-llama", Model: "Llama-3.3-70B-Instruct",
			Good: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0", Missing: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1-hotfix",
			Flawed: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.1",
			Dead:   vllmDead,
		}
	case TRTLLM:
		return Defaults{
			Container: "trtllm", Job: "trtllm", Port: 8000, Pool: "trtllm-llama", Model: "llama-70b",
			Good: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0", Missing: "nvcr.io/nvidia/tensorrt-llm/release:1.3.1-hotfix",
			Flawed: "nvcr.io/nvidia/tensorrt-llm/release:1.3.1",
			Dead:   "RuntimeError: Executor worker returned error",
		}
	}
	return Defaults{
		Container: "vllm", Job: "vllm", Port: 8000, Pool: "vllm-llama", Model: "llama-70b",
		Good: "vllm/vllm-openai:v0.23.0", Missing: "vllm/vllm-openai:v0.24.0-hotfix", Flawed: "vllm/vllm-openai:v0.24.0",
		Dead: vllmDead,
	}
}
