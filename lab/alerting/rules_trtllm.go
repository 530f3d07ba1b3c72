package alerting

import (
	"slices"
	"time"
)

// The series that count generated tokens and finished requests.
const (
	trtllmGenerated = "trtllm_generation_tokens_total"
	trtllmFinished  = "trtllm_request_success_total"
)

// trtllmRules are the rules on TensorRT-LLM's series: those of deploy/prometheus/trtllm.yml, and
// the usual ones for vLLM. A rule that compares with the past looks back minutes instead of hours.
// TensorRT-LLM counts tokens when a request ends, so rules on tokens use longer windows than those
// of other kinds.
func trtllmRules() []Rule { return slices.Concat(trtllmUserRules(), trtllmEngineRules()) }

// trtllmUserRules are the rules on latency and failed requests.
func trtllmUserRules() []Rule {
	const failed = "sum " + byPool + ` (rate(trtllm_request_error_total{http_code="500"}[5m])) / (sum ` + byPool +
		" (rate(" + trtllmFinished + "[5m])) + sum " + byPool + " (rate(trtllm_request_error_total[5m])))"
	ttft, tpot := usualQuantile("trtllm_time_to_first_token_seconds"), usualQuantile("trtllm_time_per_output_token_seconds")
	e2e := usualQuantile("trtllm_e2e_request_latency_seconds")
	failing := func(h *history) vector {
		errors := h.rate("trtllm_request_error_total", 300, 0)
		all := append(h.rate(trtllmFinished, 300, 0).sum(poolLabels...), errors.sum(poolLabels...)...).sum(poolLabels...)
		return errors.with("http_code", "500").sum(poolLabels...).per(all, poolLabels...)
	}
	return []Rule{
		{"TRTLLMTTFTHigh", ttft.expr("0.95") + " > 2.5",
			2 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 2.5 s",
			func(h *history) vector { return ttft.of(h, .95).above(2.5) }},
		{"TRTLLMTTFTCritical", ttft.expr("0.95") + " > 5",
			5 * time.Minute, "critical", "p95 time to first token of {{ $labels.model_name }} is over 5 s",
			func(h *history) vector { return ttft.of(h, .95).above(5) }},
		{"TRTLLMTimePerTokenHigh", tpot.expr("0.95") + " > 0.1",
			3 * time.Minute, "warning", "p95 time per output token of {{ $labels.model_name }} is over 100 ms",
			func(h *history) vector { return tpot.of(h, .95).above(.1) }},
		{"TRTLLMTimePerTokenCritical", tpot.expr("0.95") + " > 0.2",
			5 * time.Minute, "critical", "p95 time per output token of {{ $labels.model_name }} is over 200 ms",
			func(h *history) vector { return tpot.of(h, .95).above(.2) }},
		{"TRTLLMTimePerTokenElevated", tpot.expr("0.5") + " > 0.03",
			3 * time.Minute, "warning", "Half of the requests to {{ $labels.model_name }} get a token every 30 ms or later",
			func(h *history) vector { return tpot.of(h, .5).above(.03) }},
		{"TRTLLMLatencyHigh", e2e.expr("0.95") + " > 60",
			5 * time.Minute, "warning", "p95 request latency of {{ $labels.model_name }} is over 60 s",
			func(h *history) vector { return e2e.of(h, .95).above(60) }},
		{"TRTLLMErrorRateHigh", failed + " > 0.01",
			10 * time.Minute, "warning", "More than 1% of the requests to {{ $labels.model_name }} fail",
			func(h *history) vector { return failing(h).above(.01) }},
		{"TRTLLMErrorRateCritical", failed + " > 0.05",
			3 * time.Minute, "critical", "More than 5% of the requests to {{ $labels.model_name }} fail",
			func(h *history) vector { return failing(h).above(.05) }},
	}
}

// trtllmEngineRules are the rules on each engine's cache, queue, throughput and cancelled requests.
func trtllmEngineRules() []Rule {
	const running, waiting = "trtllm_num_requests_running", "trtllm_num_requests_waiting"
	queue := usualQuantile("trtllm_request_queue_time_seconds")
	return []Rule{
		{"TRTLLMEngineStalled",
			"sum " + byPod + " (rate(" + trtllmGenerated + "[5m])) == 0 and max " + byPod + " (min_over_time(" + running + "[5m])) > 0",
			time.Minute, "critical", "{{ $labels.pod }} runs requests and finishes none",
			func(h *history) vector {
				flat := h.rate(trtllmGenerated, 300, 0).sum(podLabels...).equal(0)
				return flat.and(h.lowest(running, 300).largest(podLabels...).above(0), podLabels...)
			}},
		{"TRTLLMKVCachePressure", "max " + byPod + " (trtllm_kv_cache_utilization) > 0.95",
			2 * time.Minute, "critical", "KV cache of {{ $labels.pod }} is over 95% full",
			func(h *history) vector { return h.now("trtllm_kv_cache_utilization").largest(podLabels...).above(.95) }},
		{"TRTLLMPausedRequests", "sum " + byPool + " (max_over_time(trtllm_num_paused_requests[5m])) > 0",
			2 * time.Minute, "warning", "{{ $labels.model_name }} pauses requests for want of KV cache",
			func(h *history) vector {
				return h.highest("trtllm_num_paused_requests", 300).sum(poolLabels...).above(0)
			}},
		{"TRTLLMQueueBuildup", "max " + byPod + " (" + waiting + ") > 20",
			time.Minute, "warning", "More than 20 requests wait on {{ $labels.pod }}",
			func(h *history) vector { return h.now(waiting).largest(podLabels...).above(20) }},
		{"TRTLLMQueueTimeHigh", queue.expr("0.95") + " > 2",
			10 * time.Minute, "warning", "p95 queue time of {{ $labels.model_name }} is over 2 s",
			func(h *history) vector { return queue.of(h, .95).above(2) }},
		{"TRTLLMThroughputDrop",
			"sum " + byPod + " (rate(" + trtllmGenerated + "[5m])) / sum " + byPod + " (rate(" + trtllmGenerated +
				"[5m] offset 5m)) < 0.5 and " + asBusy(byPod, running),
			2 * time.Minute, "warning", "{{ $labels.pod }} generates less than half of what it did",
			func(h *history) vector {
				before := h.rate(trtllmGenerated, 300, 300).sum(podLabels...)
				r := h.rate(trtllmGenerated, 300, 0).sum(podLabels...).per(before, podLabels...)
				return r.below(.5).and(h.asBusy(running, podLabels...), podLabels...)
			}},
		{"TRTLLMKVHeldWhileIdle",
			"max " + byPod + " (trtllm_kv_cache_utilization) > 0.1 and sum " + byPod + " (" + running + " + " + waiting + ") == 0",
			15 * time.Second, "warning", "{{ $labels.pod }} holds KV cache and has no requests",
			func(h *history) vector {
				load := append(h.now(running), h.now(waiting)...).sum(podLabels...)
				return h.now("trtllm_kv_cache_utilization").largest(podLabels...).above(.1).and(load.equal(0), podLabels...)
			}},
		{"TRTLLMCacheHitsDropped",
			"sum " + byPool + " (rate(trtllm_prompt_cached_tokens_total[5m])) / sum " + byPool +
				" (rate(trtllm_prompt_tokens_total[5m])) < 0.1",
			5 * time.Minute, "info", "Prefix cache hit ratio of {{ $labels.model_name }} is under 10%",
			func(h *history) vector {
				return h.ratio("trtllm_prompt_cached_tokens_total", "trtllm_prompt_tokens_total").below(.1)
			}},
		{"TRTLLMMostRequestsCancelled",
			"sum " + byPool + " (rate(" + trtllmFinished + `{finished_reason="cancelled"}[5m])) / sum ` + byPool + " (rate(" +
				trtllmFinished + "[5m])) > 0.6",
			2 * time.Minute, "warning", "Clients of {{ $labels.model_name }} hang up on more than 60% of their requests",
			func(h *history) vector {
				left := h.rate(trtllmFinished, 300, 0)
				return left.with("finished_reason", "cancelled").sum(poolLabels...).per(left.sum(poolLabels...), poolLabels...).above(.6)
			}},
	}
}
