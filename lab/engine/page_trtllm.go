package engine

import (
	"maps"
	"slices"

	"paramedic/lab/metrics"
)

// trtllmFinished maps vLLM's reasons for a request's end to TensorRT-LLM's.
var trtllmFinished = map[string]string{finishedStop: "stop", finishedLength: "length", finishedAbort: "cancelled"}

// trtllmPage fills a worker's page as TensorRT-LLM serves it with return_perf_metrics and
// enable_iter_perf_stats. All its series have labels, and a series with labels is absent before it
// has a value.
func (e *Engine) trtllmPage(p *metrics.Page, of Process) {
	s, t := &e.stats, e.trtllm
	p.Common("model_name", of.Model, "engine_type", "trtllm")
	p.Created(of.created())
	left := 0.0
	for _, reason := range slices.Sorted(maps.Keys(trtllmFinished)) {
		if n := s.finished[reason]; n > 0 {
			p.Counter("trtllm_request_success_total", "Count of successfully processed requests.", n, "finished_reason",
				trtllmFinished[reason])
			left += n
		}
	}
	observed(p, "trtllm_e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", s.e2e)
	observed(p, "trtllm_time_to_first_token_seconds", "Histogram of time to first token in seconds.", t.ttft)
	observed(p, "trtllm_time_per_output_token_seconds", "Histogram of time per output token in seconds.", s.tpot)
	observed(p, "trtllm_request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.queue)
	observed(p, "trtllm_request_prefill_time_seconds", "Histogram of prefill (context) phase duration in seconds (first_token_time - "+
		"first_scheduled_time).", t.prefill)
	observed(p, "trtllm_request_decode_time_seconds", "Histogram of decode (generation) phase duration in seconds (last_token_time - "+
		"first_token_time).", s.decode)
	observed(p, "trtllm_request_inference_time_seconds", "Histogram of total inference duration in seconds (last_token_time - "+
		"first_scheduled_time).", s.inference)
	counted(p, "trtllm_prompt_tokens_total", "Cumulative number of prompt (input) tokens processed.", t.prompt)
	counted(p, "trtllm_generation_tokens_total", "Cumulative number of generation (output) tokens produced.", t.output)
	// The only series of a fresh worker.
	p.Counter("trtllm_prompt_cached_tokens_total", "Process-lifetime total prompt tokens served from KV cache.", t.cached)
	observed(p, "trtllm_prompt_cached_tokens_per_request", "Histogram of cached prompt tokens per request.", t.cachedTokens)
	if n := s.http["5xx"]; n > 0 {
		p.Counter("trtllm_request_error_total", "Total request errors, labeled by HTTP status code.", n, "http_code", "500")
	}
	counted(p, "trtllm_num_requests_completed_total", "Total number of completed requests across iterations", left)
	observed(p, "trtllm_prefill_batch_tokens", "Histogram of total context tokens per iteration.", t.iterationPrefill)
	counted(p, "trtllm_kv_cache_reused_blocks_total", "Cumulative number of KV cache blocks reused (cache hits)", s.prefixHits/BlockSize)
	counted(p, "trtllm_kv_cache_missed_blocks_total", "Cumulative number of KV cache blocks missed (cache misses)",
		(s.prefixQueries-s.prefixHits)/BlockSize)
	if t.iterated {
		trtllmGauges(p, e)
	}
}

// trtllmGauges adds the gauges that each iteration sets.
func trtllmGauges(p *metrics.Page, e *Engine) {
	t := e.trtllm
	gauge := func(name, help string, v int) { p.Gauge(name, help, float64(v)) }
	gauge("trtllm_num_requests_running", "Number of active requests", t.active)
	gauge("trtllm_num_requests_waiting", "Number of queued requests", t.queued)
	gauge("trtllm_max_num_active_requests", "Maximum number of active requests", e.MaxSeqs)
	p.Gauge("trtllm_iteration_latency_seconds", "Iteration latency in seconds", t.latency)
	gauge("trtllm_max_batch_size_static", "Static maximum batch size", e.MaxSeqs)
	gauge("trtllm_max_batch_size_runtime", "Runtime maximum batch size", e.MaxSeqs)
	gauge("trtllm_max_num_tokens_runtime", "Runtime maximum number of tokens", e.Budget)
	gauge("trtllm_kv_cache_max_blocks", "Maximum number of KV cache blocks", e.kv.total)
	gauge("trtllm_kv_cache_free_blocks", "Number of free KV cache blocks", e.kv.free)
	gauge("trtllm_kv_cache_used_blocks", "Number of used KV cache blocks", e.kv.total-e.kv.free)
	gauge("trtllm_kv_cache_tokens_per_block", "Number of tokens per KV cache block", BlockSize)
	p.Gauge("trtllm_kv_cache_utilization", "KV cache utilization", e.kv.usage())
	p.Gauge("trtllm_kv_cache_hit_rate", "KV cache hit rate", e.stats.prefixHits/max(1, e.stats.prefixQueries)) // over the process's life
	gauge("trtllm_num_context_requests", "Number of context (prefill) requests", t.context)
	gauge("trtllm_num_generation_requests", "Number of generation (decode) requests", t.generation)
	gauge("trtllm_num_scheduled_requests", "Number of scheduled requests", t.context+t.generation)
	gauge("trtllm_num_paused_requests", "Number of paused requests", t.paused)
	gauge("trtllm_total_context_tokens", "Total number of context tokens", t.contextTokens)
	p.Gauge("trtllm_prefill_batch_occupancy", "Fraction of max active slots occupied by context requests.",
		float64(t.context)/float64(e.MaxSeqs))
}

// observed adds a histogram that is absent before its first observation.
func observed(p *metrics.Page, name, help string, h *metrics.Histogram) {
	if h.Count() > 0 {
		p.Histogram(name, help, h)
	}
}

// counted adds a counter that is absent before its first increment.
func counted(p *metrics.Page, name, help string, v float64) {
	if v > 0 {
		p.Counter(name, help, v)
	}
}
