package lab

import (
	"maps"
	"slices"
)

// trtllmFinished maps vLLM's reasons for a request's end to TensorRT-LLM's.
var trtllmFinished = map[string]string{finishedStop: "stop", finishedLength: "length", finishedAbort: "cancelled"}

// trtllmPage returns a worker's page as TensorRT-LLM serves it with return_perf_metrics and
// enable_iter_perf_stats. All its series have labels, and a series with labels is absent before it
// has a value.
func (f *Fleet) trtllmPage(w *worker) *page {
	e, s, t := w.eng, &w.eng.stats, w.eng.trtllm
	p := f.newPage("model_name", f.cfg.Model, "engine_type", "trtllm")
	p.created = float64(f.at(w.until).UnixMilli()) / 1000
	left := 0.0
	for _, reason := range slices.Sorted(maps.Keys(trtllmFinished)) {
		if n := s.finished[reason]; n > 0 {
			p.counter("trtllm_request_success_total", "Count of successfully processed requests.", n, "finished_reason",
				trtllmFinished[reason])
			left += n
		}
	}
	p.observed("trtllm_e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", s.e2e)
	p.observed("trtllm_time_to_first_token_seconds", "Histogram of time to first token in seconds.", t.ttft)
	p.observed("trtllm_time_per_output_token_seconds", "Histogram of time per output token in seconds.", s.tpot)
	p.observed("trtllm_request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.queue)
	p.observed("trtllm_request_prefill_time_seconds", "Histogram of prefill (context) phase duration in seconds (first_token_time - "+
		"first_scheduled_time).", t.prefill)
	p.observed("trtllm_request_decode_time_seconds", "Histogram of decode (generation) phase duration in seconds (last_token_time - "+
		"first_token_time).", s.decode)
	p.observed("trtllm_request_inference_time_seconds", "Histogram of total inference duration in seconds (last_token_time - "+
		"first_scheduled_time).", s.inference)
	p.counted("trtllm_prompt_tokens_total", "Cumulative number of prompt (input) tokens processed.", t.prompt)
	p.counted("trtllm_generation_tokens_total", "Cumulative number of generation (output) tokens produced.", t.output)
	// The only series of a fresh worker.
	p.counter("trtllm_prompt_cached_tokens_total", "Process-lifetime total prompt tokens served from KV cache.", t.cached)
	p.observed("trtllm_prompt_cached_tokens_per_request", "Histogram of cached prompt tokens per request.", t.cachedTokens)
	if n := s.http["5xx"]; n > 0 {
		p.counter("trtllm_request_error_total", "Total request errors, labeled by HTTP status code.", n, "http_code", "500")
	}
	p.counted("trtllm_num_requests_completed_total", "Total number of completed requests across iterations", left)
	p.observed("trtllm_prefill_batch_tokens", "Histogram of total context tokens per iteration.", t.iterationPrefill)
	p.counted("trtllm_kv_cache_reused_blocks_total", "Cumulative number of KV cache blocks reused (cache hits)", s.prefixHits/BlockSize)
	p.counted("trtllm_kv_cache_missed_blocks_total", "Cumulative number of KV cache blocks missed (cache misses)",
		(s.prefixQueries-s.prefixHits)/BlockSize)
	if t.iterated {
		trtllmGauges(p, e)
	}
	return p
}

// trtllmGauges adds the gauges that each iteration sets.
func trtllmGauges(p *page, e *engine) {
	t := e.trtllm
	gauge := func(name, help string, v int) { p.gauge(name, help, float64(v)) }
	gauge("trtllm_num_requests_running", "Number of active requests", t.active)
	gauge("trtllm_num_requests_waiting", "Number of queued requests", t.queued)
	gauge("trtllm_max_num_active_requests", "Maximum number of active requests", e.maxSeqs)
	p.gauge("trtllm_iteration_latency_seconds", "Iteration latency in seconds", t.latency)
	gauge("trtllm_max_batch_size_static", "Static maximum batch size", e.maxSeqs)
	gauge("trtllm_max_batch_size_runtime", "Runtime maximum batch size", e.maxSeqs)
	gauge("trtllm_max_num_tokens_runtime", "Runtime maximum number of tokens", e.budget)
	gauge("trtllm_kv_cache_max_blocks", "Maximum number of KV cache blocks", e.kv.total)
	gauge("trtllm_kv_cache_free_blocks", "Number of free KV cache blocks", e.kv.free)
	gauge("trtllm_kv_cache_used_blocks", "Number of used KV cache blocks", e.kv.total-e.kv.free)
	gauge("trtllm_kv_cache_tokens_per_block", "Number of tokens per KV cache block", BlockSize)
	p.gauge("trtllm_kv_cache_utilization", "KV cache utilization", e.kv.usage())
	p.gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate", e.stats.prefixHits/max(1, e.stats.prefixQueries)) // over the process's life
	gauge("trtllm_num_context_requests", "Number of context (prefill) requests", t.context)
	gauge("trtllm_num_generation_requests", "Number of generation (decode) requests", t.generation)
	gauge("trtllm_num_scheduled_requests", "Number of scheduled requests", t.context+t.generation)
	gauge("trtllm_num_paused_requests", "Number of paused requests", t.paused)
	gauge("trtllm_total_context_tokens", "Total number of context tokens", t.contextTokens)
	p.gauge("trtllm_prefill_batch_occupancy", "Fraction of max active slots occupied by context requests.",
		float64(t.context)/float64(e.maxSeqs))
}

// observed adds a histogram that is absent before its first observation.
func (p *page) observed(name, help string, h *histogram) {
	if h.count > 0 {
		p.histogram(name, help, h)
	}
}

// counted adds a counter that is absent before its first increment.
func (p *page) counted(name, help string, v float64) {
	if v > 0 {
		p.counter(name, help, v)
	}
}
