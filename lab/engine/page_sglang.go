package engine

import (
	"strconv"

	"paramedic/lab/metrics"
)

// sglangPage fills a worker's /metrics as SGLang serves it. Series of the scheduler have its
// ranks as labels, series of requests only the model. No series counts failed requests or separates
// prefill from decode time.
func (e *Engine) sglangPage(p *metrics.Page, of Process) {
	s := e.sglang
	model := []string{"model_name", of.Model}
	p.Common("model_name", of.Model, "engine_type", "unified", "moe_ep_rank", "0", "pp_rank", "0", "tp_rank", "0")
	p.Histogram("sglang:per_stage_req_latency_seconds", "The latency of each stage of requests.", s.stage, "stage", "prefill_waiting")
	p.Histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.", s.queue)
	const realtime = "sglang:realtime_tokens_total"
	p.Counter(realtime, "Total number of tokens processed (updated on each log interval).", s.compute, "mode", "prefill_compute")
	p.Counter(realtime, "Total number of tokens processed (updated on each log interval).", s.cached, "mode", "prefill_cache")
	p.Counter(realtime, "Total number of tokens processed (updated on each log interval).", s.generated, "mode", "decode")
	p.Counter("sglang:cuda_graph_passes_total", "Total number of forward passes categorized by CUDA graph.", s.decodes, "mode",
		"decode_cuda_graph")
	pid := []string{"pid", strconv.Itoa(of.PID)}
	g := &s.seen
	p.Gauge("sglang:num_retracted_reqs", "The number of retracted requests.", float64(g.retracted), pid...)
	p.Gauge("sglang:num_paused_reqs", "The number of paused requests by async weight sync.", 0, pid...)
	p.Gauge("sglang:num_running_reqs", "The number of running requests.", float64(g.running))
	p.Gauge("sglang:num_used_tokens", "The number of used tokens.", float64(g.used))
	p.Gauge("sglang:token_usage", "The token usage.", g.usage)
	p.Gauge("sglang:decode_sum_seq_lens", "The sum of all sequence lengths in decode.", float64(g.lengths))
	p.Gauge("sglang:gen_throughput", "The generation throughput (token/s).", g.throughput)
	p.Gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", float64(g.waiting))
	p.Gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", g.hitRate)
	p.Gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", float64(e.kv.total*BlockSize))
	p.Gauge("sglang:is_cuda_graph", "Whether the batch is using CUDA graph.", metrics.Bool(g.graph))
	for _, unused := range sglangUnused {
		p.Gauge(unused[0], unused[1], 0)
	}
	p.Common()
	p.Histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.ttft, model...)
	p.Histogram("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.itl, model...)
	p.Histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", s.e2e, model...)
	p.Histogram("sglang:num_retractions", "Histogram of retraction counts per request.", s.retractions, model...)
	p.Counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.", s.prompt, model...)
	p.Counter("sglang:generation_tokens_total", "Number of generation tokens processed.", s.output, model...)
	p.Counter("sglang:num_requests_total", "Number of requests processed.", s.requests, model...)
	if s.aborted > 0 { // a counter with labels is absent before its first increment
		p.Counter("sglang:num_aborted_requests_total", "Number of requests aborted.", s.aborted, model...)
	}
}

// sglangUnused adds the gauges of features that these workers do not use: speculation,
// disaggregation, offline batches, grammars, hybrid models.
var sglangUnused = [][2]string{
	{"sglang:pending_prealloc_token_usage", "The token usage for pending preallocated tokens (not preallocated yet)."},
	{"sglang:swa_token_usage", "The token usage for SWA layers."},
	{"sglang:mamba_usage", "The token usage for Mamba layers."},
	{"sglang:num_grammar_queue_reqs", "The number of requests in the grammar waiting queue."},
	{"sglang:num_running_reqs_offline_batch", "The number of running low-priority offline batch requests(label is 'batch')."},
	{"sglang:spec_accept_length", "The average acceptance length of speculative decoding."},
	{"sglang:spec_accept_rate", "The average acceptance rate of speculative decoding (`accepted tokens / total draft tokens` in batch)."},
	{"sglang:num_prefill_prealloc_queue_reqs", "The number of requests in the prefill prealloc queue."},
	{"sglang:num_prefill_inflight_queue_reqs", "The number of requests in the prefill inflight queue."},
	{"sglang:num_decode_prealloc_queue_reqs", "The number of requests in the decode prealloc queue."},
	{"sglang:num_decode_transfer_queue_reqs", "The number of requests in the decode transfer queue."},
	{"sglang:kv_transfer_speed_gb_s", "The transfer speed of the KV cache in GB/s."},
	{"sglang:kv_transfer_latency_ms", "The transfer latency of the KV cache in ms."},
	{"sglang:kv_transfer_bootstrap_ms", "The bootstrap time of the KV transfer in ms."},
	{"sglang:kv_transfer_alloc_ms", "The allocation waiting time of the KV transfer in ms."},
	{"sglang:kv_transfer_total_mb", "The total number of tokens transferred in the KV cache."},
	{"sglang:utilization", "The utilization."},
	{"sglang:engine_startup_time", "The time taken for the engine to start up."},
	{"sglang:engine_load_weights_time", "The time taken for the engine to load weights."},
	{"sglang:new_token_ratio", "The new token ratio."},
}
