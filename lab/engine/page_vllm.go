package engine

import (
	"fmt"
	"strconv"

	"paramedic/lab/metrics"
)

// vllmPage fills a worker's page as vLLM V1 with the usual HTTP instrumentator serves it, or
// Dynamo's runtime, which has no HTTP server to instrument.
func (e *Engine) vllmPage(p *metrics.Page, of Process) {
	p.Common("model_name", of.Model, "engine", "0")
	s := &e.stats
	p.Gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(len(e.running)))
	p.Gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(len(e.waiting)))
	if e.kind == VLLM { // Dynamo's recorded workers are older than that
		p.Gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", float64(len(e.waiting)), "reason",
			"capacity")
		p.Gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", 0, "reason", "deferred")
	}
	for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		p.Gauge("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake.",
			metrics.Bool(state == "awake"), "sleep_state", state)
	}
	p.Gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", e.kv.usage())
	p.Created(of.created())
	p.Counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", s.prefixQueries)
	p.Counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", s.prefixHits)
	p.Counter("vllm:external_prefix_cache_queries_total", "External prefix cache queries from KV connector cross-instance cache "+
		"sharing, in terms of number of queried tokens.", 0)
	p.Counter("vllm:external_prefix_cache_hits_total", "External prefix cache hits from KV connector cross-instance cache sharing, in "+
		"terms of number of cached tokens.", 0)
	p.Counter("vllm:mm_cache_queries_total", "Multi-modal cache queries, in terms of number of queried items.", 0)
	p.Counter("vllm:mm_cache_hits_total", "Multi-modal cache hits, in terms of number of cached items.", 0)
	p.Counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", s.preemptions)
	p.Counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", s.promptTokens)
	p.Counter("vllm:generation_tokens_total", "Number of generation tokens processed.", s.generationTokens)
	for _, reason := range []string{finishedStop, finishedLength, finishedAbort, finishedError} {
		p.Counter("vllm:request_success_total", "Count of successfully processed requests.", s.finished[reason], "finished_reason", reason)
	}
	engineHistograms(p, s)
	p.Created(0)
	p.Common()
	e.cacheConfig(p)
	if e.kind == Dynamo {
		e.runtimeSeries(p, of)
		return
	}
	for _, class := range []string{"2xx", "4xx", "5xx"} {
		if n := s.http[class]; n > 0 || class == "2xx" {
			p.Counter("http_requests_total", "Total number of requests by method, status and handler.", n, "handler",
				"/v1/chat/completions", "method", "POST", "status", class)
		}
	}
	p.Gauge("process_resident_memory_bytes", "Resident memory size in bytes.", float64(int64(of.RSS)))
	p.Gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(of.Started.Unix()))
}

func engineHistograms(p *metrics.Page, s *stats) {
	p.Histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", s.promptLen)
	p.Histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", s.outputLen)
	p.Histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", s.iteration)
	p.Histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", s.maxTokens)
	p.Histogram("vllm:request_params_n", "Histogram of the n request parameter.", s.paramN)
	p.Histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", s.params)
	p.Histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.ttft)
	p.Histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.itl)
	p.Histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", s.tpot)
	p.Histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", s.e2e)
	p.Histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.queue)
	p.Histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", s.inference)
	p.Histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", s.prefill)
	p.Histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", s.decode)
	p.Histogram("vllm:request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
		s.computedTokens)
}

// cacheConfig adds vllm:cache_config_info, the only series without a model name.
func (e *Engine) cacheConfig(p *metrics.Page) {
	caching := "True"
	if e.settings.NoPrefixCaching {
		caching = "False"
	}
	p.Gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1,
		"block_size", strconv.Itoa(BlockSize), "cache_dtype", "auto", "calculate_kv_scales", "False", "cpu_kvcache_space_bytes", "None",
		"cpu_offload_gb", "0.0", "enable_prefix_caching", caching, "engine", "0",
		"gpu_memory_utilization", fmt.Sprint(e.settings.GPUMemoryUtilization), "is_attention_free", "False",
		"kv_cache_memory_bytes", "None", "kv_offloading_backend", "None", "kv_offloading_size", "None", "kv_sharing_fast_prefill", "False",
		"mamba_block_size", "None", "mamba_cache_dtype", "auto", "mamba_page_size_padded", "None", "mamba_ssm_cache_dtype", "auto",
		"num_cpu_blocks", "None", "num_gpu_blocks", strconv.Itoa(e.kv.total), "num_gpu_blocks_override", "None",
		"prefix_caching_hash_algo", "sha256", "sliding_window", "None", "swap_space", "4.0")
}
