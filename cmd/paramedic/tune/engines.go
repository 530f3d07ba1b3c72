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
			"vLLM V1 always prefills in chunks: --enable-chunked-prefill changes nothing, and " +
				"--max-num-batched-tokens is the size of the chunks.",
			"vLLM V1 computes preempted requests anew and swaps nothing: --swap-space and --preemption-mode are gone.",
			"All of these are read at the start only. Change one in a rolling restart, and watch preemptions and the " +
				"time between tokens.",
		}},
	"sglang": {name: "SGLang", seqs: "--max-running-requests", chunk: "--chunked-prefill-size",
		notes: []string{
			"SGLang's KV cache is what --mem-fraction-static leaves beside the weights. It retracts requests when " +
				"that is full, and computes them anew.",
			"Both are read at the start only. Alone of the engines, SGLang takes a lower cap while it runs: " +
				"pp_max_micro_batch_size at /set_internal_state, lost at a restart.",
		}},
	"trtllm": {name: "TensorRT-LLM", seqs: "--max_batch_size", chunk: "--max_num_tokens", shared: true,
		notes: []string{
			"TensorRT-LLM cuts prompts into chunks with enable_chunked_prefill: true alone. Without it " +
				"--max_num_tokens has to hold the longest prompt whole.",
			"Its KV cache is what kv_cache_config.free_gpu_memory_fraction takes of the memory that is left. All of " +
				"these are read at the start only.",
		}},
}

// unknownEngine stands for an engine of an unknown kind, such as behind a frontend that alone is
// scraped.
var unknownEngine = engineFlags{name: "unknown engine", seqs: "sequences at a time", chunk: "tokens of a prefill chunk",
	notes: []string{
		"What runs the model was not seen, only what stands before it. vLLM calls the two --max-num-seqs and " +
			"--max-num-batched-tokens, SGLang --max-running-requests and " +
			"--chunked-prefill-size, TensorRT-LLM --max_batch_size and --max_num_tokens. Scrape the workers, too.",
	}}

func engineOf(name string) engineFlags {
	if e, ok := engines[name]; ok {
		return e
	}
	return unknownEngine
}
