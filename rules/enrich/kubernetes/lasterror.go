package kubernetes

import (
	"regexp"
	"strings"
)

// A crashLine is a line that engines are known to write when they fail. If a log has several, the
// lowest rank counts, because a lost peer or a dead engine process is a consequence. Within a rank
// the last line counts, because the engine survived the earlier ones.
type crashLine struct {
	class string
	rank  int
	line  *regexp.Regexp
}

const (
	rankCause   = iota // names the cause
	rankMissing        // names something missing, which may have a cause of its own
	rankGroup          // a collective that lost a peer
	rankDead           // the frontend lost its engine
)

// crashLines are the known lines, each with its source.
var crashLines = compile([]struct{ class, line, rank string }{
	// vLLM v1/core/kv_cache_utils.py, and v0 worker.py before it.
	{"no_kv_memory", `no available memory for the cache blocks`, "cause"},
	// vLLM v1/core/kv_cache_utils.py: the longest allowed request does not fit.
	{"no_kv_memory", `kv cache is needed, which is larger than the available kv cache memory`, "cause"},
	// vLLM 0.10 and before: the same check with another text.
	{"no_kv_memory", `max seq len \(\d+\) is larger than the maximum number of tokens that can be stored in kv cache`, "cause"},
	// SGLang model_executor: MemoryPoolConfig, init_memory_pool.
	{"no_kv_memory", `not enough memory\. please try to increase --mem-fraction-static`, "cause"},

	// PyTorch c10/cuda/CUDACachingAllocator.cpp; under ROCm the text has HIP.
	{"cuda_oom", `outofmemoryerror: (cuda|hip) out of memory|(cuda|hip) out of memory\. tried to allocate`, "cause"},
	// CUDA runtime and driver, in the form of PyTorch and TensorRT-LLM.
	{"cuda_oom", `cuda error: out of memory|cuda runtime error in .*: out of memory|cudaerrormemoryallocation|` +
		`cuda_error_out_of_memory`, "cause"},
	// vLLM v1/worker/gpu_worker.py: another process holds the device's memory.
	{"cuda_oom", `free memory on device .*on startup is less than desired gpu memory utilization`, "cause"},
	// SGLang model_executor/cuda_graph_runner.py.
	{"cuda_oom", `capture cuda graph failed: .*out of memory`, "cause"},
	// TensorRT-LLM _torch/pyexecutor/py_executor_creator.py.
	{"cuda_oom", `executor creation failed due to insufficient gpu memory`, "cause"},

	// CUDA runtime: cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable,
	// cudaErrorHardwareStackError. NVML: NVML_ERROR_GPU_IS_LOST, which engines get at their next
	// start.
	{"gpu_error", `uncorrectable (ecc|nvlink) error|cuda error: hardware stack error|gpu is lost|nvmlerror_gpuislost`, "cause"},

	// Python argparse, used by vLLM, SGLang, Dynamo and trtllm-serve; click, used by trtllm-serve.
	{"bad_argument", `error: (unrecognized arguments|argument -|the following arguments are required|ambiguous option)|` +
		`error: no such option`, "cause"},
	// vLLM config.py, from pydantic.
	{"bad_argument", `validation errors? for \w*(config|args)\b`, "cause"},
	// vLLM config/model.py.
	{"bad_argument", `user-specified max_model_len \(\d+\) is greater than the derived max_model_len`, "cause"},
	// vLLM config/model.py: parallelism and attention heads do not match.
	{"bad_argument", `total number of attention heads \(\d+\) must be divisible by tensor parallel size`, "cause"},

	// PyTorch torch/cuda/__init__.py (c10/cuda/CUDAFunctions.cpp).
	{"driver_mismatch", `the nvidia driver on your system is too old`, "cause"},
	// CUDA runtime: cudaErrorInsufficientDriver, cudaErrorSystemDriverMismatch,
	// cudaErrorCompatNotSupportedOnDevice.
	{"driver_mismatch", `cuda driver version is insufficient for cuda runtime version|` +
		`system has unsupported display driver / cuda driver combination|` +
		`forward compatibility was attempted on non supported hw`, "cause"},
	// NVML after a driver upgrade on a running node.
	{"driver_mismatch", `driver/library version mismatch`, "cause"},
	// NVIDIA Container Toolkit: the image's NVIDIA_REQUIRE_CUDA is not met.
	{"driver_mismatch", `requirement error: unsatisfied condition: cuda`, "cause"},

	// huggingface_hub utils/_http.py: GatedRepoError; transformers utils/hub.py for the second.
	{"hub_denied", `gatedrepoerror|cannot access gated repo|you are trying to access a gated repo`, "cause"},
	// huggingface_hub utils/_http.py, with the text of requests or httpx. A private repository
	// looks like one that does not exist.
	{"hub_denied", `(401|403) client error|invalid user token|invalid username or password`, "cause"},
	// huggingface_hub utils/_http.py; the second is the Hub's own text.
	{"hub_rate_limited", `429 client error|429 too many requests.*huggingface|we had to rate limit`, "cause"},

	// vLLM and SGLang model_loader/weight_utils.py, loader.py.
	{"weights_missing", `cannot find any model weights with`, "missing"},
	// transformers utils/hub.py.
	{"weights_missing", `does not appear to have a file named|is not a local folder and is not a valid model identifier|` +
		`can't load the configuration of|is not the path to a directory containing`, "missing"},
	// huggingface_hub: nothing cached, and the Hub is unreachable.
	{"weights_missing", `localentrynotfounderror|repositorynotfounderror|revisionnotfounderror|entrynotfounderror`, "missing"},
	// safetensors, on a truncated file.
	{"weights_missing", `error while deserializing header|no such file or directory: '?[^\n']*\.(safetensors|bin|pt|gguf)`, "missing"},

	// PyTorch ProcessGroupNCCL.cpp.
	{"nccl_timeout", `watchdog caught collective operation timeout|some nccl operations have failed or timed out`, "group"},
	// PyTorch ProcessGroupNCCL.cpp and NCCL: a peer is lost.
	{"nccl_timeout", `distbackenderror: .*nccl error|nccl error in: |ncclremoteerror|ncclsystemerror|` +
		`nccl warn .*(timed? ?out|connection closed by remote peer|connect to .* failed)`, "group"},

	// vLLM v1/engine/exceptions.py, core_client.py, core.py.
	{"engine_dead", `enginedeaderror|enginecore encountered an issue|engine core initialization failed|` +
		`enginecore failed to start|engine core proc .* died unexpectedly`, "dead"},
	// vLLM 0.x engine/multiprocessing.
	{"engine_dead", `mqenginedeaderror|asyncenginedeaderror|engine process failed to start`, "dead"},
	// SGLang managers/scheduler.py, utils.py (kill_process_tree on SIGQUIT), watchdog.
	{"engine_dead", `scheduler hit an exception|received sigquit from a child process|(scheduler|` +
		`self\.)? ?watchdog timeout`, "dead"},
	// TensorRT-LLM executor/proxy.py.
	{"engine_dead", `executor worker (died during initialization|returned error)`, "dead"},
})

func compile(table []struct{ class, line, rank string }) []crashLine {
	ranks := map[string]int{"cause": rankCause, "missing": rankMissing, "group": rankGroup, "dead": rankDead}
	out := make([]crashLine, 0, len(table))
	for _, w := range table {
		out = append(out, crashLine{w.class, ranks[w.rank], regexp.MustCompile(w.line)})
	}
	return out
}

// LastError returns the class of the last error in a container's log or termination message, or ""
// if no known line is in it. The text itself goes no further.
func LastError(text string) string {
	text = strings.ToLower(text)
	best, rank, at := "", rankDead+1, -1
	for _, w := range crashLines {
		if w.rank > rank {
			continue
		}
		matches := w.line.FindAllStringIndex(text, -1)
		if len(matches) == 0 {
			continue
		}
		if last := matches[len(matches)-1][0]; w.rank < rank || last > at {
			best, rank, at = w.class, w.rank, last
		}
	}
	return best
}
