package lab

import (
	"fmt"
	"strconv"
)

// enginePage returns a worker's /metrics, or nil if it does not listen.
func (f *Fleet) enginePage(w *worker) *page {
	switch {
	case w.phase != podReady || w.eng == nil:
		return nil
	case f.cfg.Kind == SGLang:
		return f.sglangPage(w)
	case f.cfg.Kind == TRTLLM:
		return f.trtllmPage(w)
	}
	return f.vllmPage(w)
}

// vllmPage returns a worker's page as vLLM V1 with the usual HTTP instrumentator serves it, or
// Dynamo's runtime, which has no HTTP server to instrument.
func (f *Fleet) vllmPage(w *worker) *page {
	p := f.newPage("model_name", f.cfg.Model, "engine", "0")
	e, s := w.eng, &w.eng.stats
	p.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(len(e.running)))
	p.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(len(e.waiting)))
	if f.cfg.Kind == VLLM { // Dynamo's recorded workers are older than that
		p.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", float64(len(e.waiting)), "reason",
			"capacity")
		p.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", 0, "reason", "deferred")
	}
	for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		p.gauge("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake.",
			float64(boolInt(state == "awake")), "sleep_state", state)
	}
	p.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", e.kv.usage())
	p.created = float64(f.at(w.until).UnixMilli()) / 1000
	p.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", s.prefixQueries)
	p.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", s.prefixHits)
	p.counter("vllm:external_prefix_cache_queries_total", "External prefix cache queries from KV connector cross-instance cache "+
		"sharing, in terms of number of queried tokens.", 0)
	p.counter("vllm:external_prefix_cache_hits_total", "External prefix cache hits from KV connector cross-instance cache sharing, in "+
		"terms of number of cached tokens.", 0)
	p.counter("vllm:mm_cache_queries_total", "Multi-modal cache queries, in terms of number of queried items.", 0)
	p.counter("vllm:mm_cache_hits_total", "Multi-modal cache hits, in terms of number of cached items.", 0)
	p.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", s.preemptions)
	p.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", s.promptTokens)
	p.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", s.generationTokens)
	for _, reason := range []string{finishedStop, finishedLength, finishedAbort, finishedError} {
		p.counter("vllm:request_success_total", "Count of successfully processed requests.", s.finished[reason], "finished_reason", reason)
	}
	engineHistograms(p, s)
	p.created = 0
	p.common = nil
	f.cacheConfig(p, w)
	if f.cfg.Kind == Dynamo {
		f.handler(p, w)
		return p
	}
	for _, class := range []string{"2xx", "4xx", "5xx"} {
		if n := s.http[class]; n > 0 || class == "2xx" {
			p.counter("http_requests_total", "Total number of requests by method, status and handler.", n, "handler",
				"/v1/chat/completions", "method", "POST", "status", class)
		}
	}
	p.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", float64(int64(w.rss)))
	p.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(f.at(w.started).Unix()))
	return p
}

func engineHistograms(p *page, s *stats) {
	p.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", s.promptLen)
	p.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", s.outputLen)
	p.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", s.iteration)
	p.histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", s.maxTokens)
	p.histogram("vllm:request_params_n", "Histogram of the n request parameter.", s.paramN)
	p.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", s.params)
	p.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.ttft)
	p.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.itl)
	p.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", s.tpot)
	p.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", s.e2e)
	p.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.queue)
	p.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", s.inference)
	p.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", s.prefill)
	p.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", s.decode)
	p.histogram("vllm:request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
		s.computedTokens)
}

// cacheConfig adds vllm:cache_config_info, the only series without a model name.
func (f *Fleet) cacheConfig(p *page, w *worker) {
	e := f.engineOf(w.args)
	caching := "True"
	if e.NoPrefixCaching {
		caching = "False"
	}
	p.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1,
		"block_size", strconv.Itoa(BlockSize), "cache_dtype", "auto", "calculate_kv_scales", "False", "cpu_kvcache_space_bytes", "None",
		"cpu_offload_gb", "0.0", "enable_prefix_caching", caching, "engine", "0",
		"gpu_memory_utilization", fmt.Sprint(e.GPUMemoryUtilization), "is_attention_free", "False", "kv_cache_memory_bytes", "None",
		"kv_offloading_backend", "None", "kv_offloading_size", "None", "kv_sharing_fast_prefill", "False",
		"mamba_block_size", "None", "mamba_cache_dtype", "auto", "mamba_page_size_padded", "None", "mamba_ssm_cache_dtype", "auto",
		"num_cpu_blocks", "None", "num_gpu_blocks", strconv.Itoa(w.eng.kv.total), "num_gpu_blocks_override", "None",
		"prefix_caching_hash_algo", "sha256", "sliding_window", "None", "swap_space", "4.0")
}
