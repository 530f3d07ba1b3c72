package tune

// engineFlags holds the names of an engine's flags, and notes on common mistakes about them.
type engineFlags struct {
	name        string
	seqs, chunk string // the flags
	// shared is set if decoded tokens count against a chunk. The chunk must not be smaller than the
	// number of sequences then.
	shared bool
	notes  []string
}

// engines has the flags by the engine's name in signals. Sources: the engines' command lines (vllm
// serve, sglang.launch_server, trtllm-serve).
var engines = map[string]engineFlags{
	"vllm": {name: "vLLM", seqs: "--max-num-seqs", chunk: "--max-num-batched-tokens", shared: true,
		notes: []string{
			"vLLM V1 always prefills in chunks. --enable-chunked-prefill has no effect, and " +
				"--max-num-batched-tokens sets the size of the chunks.",
			"vLLM V1 computes preempted requests again and never swaps. It has no --swap-space and no --preemption-mode.",
			"vLLM reads these flags only at its start. Change them with a rolling restart, and watch preemptions and the " +
				"time between tokens.",
		}},
	"sglang": {name: "SGLang", seqs: "--max-running-requests", chunk: "--chunked-prefill-size",
		notes: []string{
			"SGLang uses for its KV cache the part of --mem-fraction-static that the weights leave. If the cache is full, SGLang " +
				"retracts requests and computes them again.",
			"SGLang reads both flags only at its start. While it runs, you can set a lower cap: " +
				"pp_max_micro_batch_size at /set_internal_state. A restart removes it.",
		}},
	"trtllm": {name: "TensorRT-LLM", seqs: "--max_batch_size", chunk: "--max_num_tokens", shared: true,
		notes: []string{
			"TensorRT-LLM cuts prompts into chunks only with enable_chunked_prefill: true. Without it, " +
				"--max_num_tokens must be at least the longest prompt.",
			"Its KV cache takes kv_cache_config.free_gpu_memory_fraction of the free memory. TensorRT-LLM reads all of " +
				"these only at its start.",
		}},
}

// unknownEngine stands for an engine of an unknown kind, such as behind a frontend that alone is
// scraped.
var unknownEngine = engineFlags{name: "unknown engine", seqs: "sequences at a time", chunk: "tokens of a prefill chunk",
	notes: []string{
		"These metrics come from a frontend, so the engine is not known. Scrape the workers, too. The two flags are --max-num-seqs and " +
			"--max-num-batched-tokens in vLLM, --max-running-requests and " +
			"--chunked-prefill-size in SGLang, --max_batch_size and --max_num_tokens in TensorRT-LLM.",
	}}

func engineOf(name string) engineFlags {
	if e, ok := engines[name]; ok {
		return e
	}
	return unknownEngine
}
