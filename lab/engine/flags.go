package engine

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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

// Args returns the arguments of the container that serves a model on a number of GPUs. A worker
// that is terminated drains for at most drain.
func (k Kind) Args(model string, gpus int, s Settings, drain time.Duration) []string {
	flag := func(name, format string, v any) string {
		return "--" + k.flag(name) + "=" + fmt.Sprintf(format, v)
	}
	out := []string{
		flag("model", "%s", model), flag("served-model-name", "%s", model),
		flag("tensor-parallel-size", "%d", gpus),
		flag("max-model-len", "%d", s.MaxModelLen),
		flag("max-num-seqs", "%d", s.MaxNumSeqs),
		flag("max-num-batched-tokens", "%d", s.MaxNumBatchedTokens),
		flag("gpu-memory-utilization", "%.2f", s.GPUMemoryUtilization),
	}
	switch k {
	case SGLang: // drains by itself when it is terminated
		out = append(out, fmt.Sprintf("--page-size=%d", BlockSize), "--enable-metrics")
	case TRTLLM: // the model has no flag; statistics, block size, MAX_UTILIZATION and prefix cache are set in the file
		return append([]string{"serve", model}, append(out[2:], "--extra_llm_api_options=/config/llm.yaml")...)
	default:
		out = append(out, flag("shutdown-timeout", "%d", int(drain.Seconds())))
	}
	if s.NoPrefixCaching {
		out = append(out, "--"+k.flag("no-enable-prefix-caching"))
	}
	return out
}

// Apply returns the settings with a worker's arguments applied. The last flag wins, as in vLLM.
func (k Kind) Apply(args []string, s Settings) Settings {
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		n, intErr := strconv.Atoi(value)
		ratio, floatErr := strconv.ParseFloat(value, 64)
		switch name = k.vllmFlag(name); {
		case name == "max-num-seqs" && intErr == nil && n > 0:
			s.MaxNumSeqs = n
		case name == "max-num-batched-tokens" && intErr == nil && n > 0:
			s.MaxNumBatchedTokens = n
		case name == "gpu-memory-utilization" && floatErr == nil:
			s.GPUMemoryUtilization = ratio
		case name == "no-enable-prefix-caching":
			s.NoPrefixCaching = true
		}
	}
	return s
}

// Find returns the place of the last argument that sets a flag. The name is vLLM's or the kind's,
// with hyphens or underscores. It also returns the flag as it is spelled there, and its value. The
// place of a missing flag is -1, and its spelling the kind's.
func (k Kind) Find(args []string, name string) (at int, flag, value string) {
	at, flag = -1, "--"+k.flag(k.vllmFlag(strings.TrimLeft(name, "-")))
	for i, a := range args {
		if name, v, _ := strings.Cut(a, "="); hyphens(name) == hyphens(flag) {
			at, flag, value = i, name, v
		}
	}
	return at, flag, value
}
