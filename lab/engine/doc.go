// Package engine simulates one worker's engine: its scheduler, its KV cache, the time of its steps,
// and the page of its counters, as vLLM, SGLang, Dynamo or TensorRT-LLM export them.
//
// Every engine runs the scheduler of vLLM V1:
//
//   - Requests wait for a slot and for KV blocks.
//   - Running requests are decoded first; prefill fills the rest of the token budget in chunks.
//   - Shared prefixes are cached, and evicted in the order in which they were freed.
//   - If blocks run out, the newest request is preempted and starts over.
//   - Memory bandwidth and arithmetic set the time of a step (see [Cost]).
//
// The caller owns the time. An engine does nothing between calls.
//
// # Sources of the constants
//
// The defaults are Llama-3 70B with FP8 weights on two H100; [Cost] has the formulas.
//
//   - H100 SXM: 80 GB, 3.35 TB/s, 989 TFLOP/s dense in bf16; H200: 141 GB. NVIDIA's data sheets
//     (nvidia.com/en-us/data-center/h100 and h200) give 1,979 TFLOP/s with sparsity.
//   - 80 layers, 8 KV heads, head size 8192/64 = 128: the model's config.json.
//   - 2 FLOP per parameter and prompt token: Kaplan et al., arXiv:2001.08361, section 2.1.
//   - A decode step reads the weights once, and the KV cache of every sequence: Pope et al.,
//     arXiv:2211.05102.
//   - KV cache in blocks of 16 tokens: Kwon et al., arXiv:2309.06180.
//   - Scheduling, chunks and preemption: vLLM's Scheduler.schedule in
//     vllm/v1/core/sched/scheduler.py at 00024d3, policy fcfs. A step that preempts admits nothing.
//   - Free blocks stay cached; the least recently freed goes first: BlockPool in vLLM's
//     vllm/v1/core/block_pool.py.
//   - Observations at a request's end: vLLM's IterationStats.update_from_finished_request in
//     vllm/v1/metrics/stats.py.
//
// Assumed, not measured: the share of the hardware's peak that is reached (0.85 of the bandwidth
// for weights, 0.5 for the KV cache, 0.35 of the arithmetic), 1 ms of launches and all-reduce per
// step, 30 µs per sequence, and 12 GB of activations and CUDA graphs.
package engine
