package alerting

import (
	"slices"
	"time"

	"paramedic/lab/front"
)

// vllmRules are the rules on vLLM's own series.
func vllmRules() []Rule { return slices.Concat(vllmLatencyRules(), vllmEngineRules()) }

// vllmLatencyRules are the rules on full workers, queues, latency and preemptions.
func vllmLatencyRules() []Rule {
	ttft, itl := usualQuantile("vllm:time_to_first_token_seconds"), usualQuantile("vllm:inter_token_latency_seconds")
	queue := usualQuantile("vllm:request_queue_time_seconds")
	return []Rule{
		{"VLLMKVCacheExhaustion", "max " + byPod + " (vllm:kv_cache_usage_perc) > 0.90",
			2 * time.Minute, "critical", "KV cache of {{ $labels.pod }} is over 90% full",
			func(h *history) vector { return h.now("vllm:kv_cache_usage_perc").largest(podLabels...).above(0.90) }},
		{"VLLMRequestQueueBackup", "max " + byPod + " (vllm:num_requests_waiting) > 20",
			time.Minute, "warning", "More than 20 requests wait on {{ $labels.pod }}",
			func(h *history) vector { return h.now("vllm:num_requests_waiting").largest(podLabels...).above(20) }},
		{"VLLMTTFTDegradation", ttft.expr("0.95") + " > 5",
			2 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 5 s",
			func(h *history) vector { return ttft.of(h, .95).above(5) }},
		{"VLLMHighTTFT", ttft.expr("0.95") + " > 3",
			10 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 3 s",
			func(h *history) vector { return ttft.of(h, .95).above(3) }},
		{"VLLMHighITL", itl.expr("0.95") + " > 0.15",
			3 * time.Minute, "warning", "p95 inter-token latency of {{ $labels.model_name }} is over 150 ms",
			func(h *history) vector { return itl.of(h, .95).above(.15) }},
		{"VLLMElevatedITL", itl.expr("0.5") + " > 0.03",
			3 * time.Minute, "warning", "Half of the tokens of {{ $labels.model_name }} take over 30 ms",
			func(h *history) vector { return itl.of(h, .5).above(.03) }},
		{"VLLMQueueTimeHigh", queue.expr("0.95") + " > 2",
			10 * time.Minute, "warning", "p95 queue time of {{ $labels.model_name }} is over 2 s",
			func(h *history) vector { return queue.of(h, .95).above(2) }},
		{"LLMPreemptionStorm", "sum " + byPool + " (rate(vllm:num_preemptions_total[5m])) > 1",
			2 * time.Minute, "critical", "{{ $labels.model_name }} preempts more than one request a second",
			func(h *history) vector {
				return h.rate("vllm:num_preemptions_total", 300, 0).sum(poolLabels...).above(1)
			}},
		{"VLLMPreemptionRelatedDegradation",
			"sum " + byPool + " (increase(vllm:num_preemptions_total[10m])) > 0 and " + ttft.expr("0.95") + " > 3",
			10 * time.Minute, "warning", "{{ $labels.model_name }} preempts requests and is slow",
			func(h *history) vector {
				return h.rate("vllm:num_preemptions_total", 600, 0).sum(poolLabels...).above(0).
					and(ttft.of(h, .95).above(3), poolLabels...)
			}},
	}
}

// vllmEngineRules are the rules on each engine's throughput, cache and aborted requests.
func vllmEngineRules() []Rule {
	return []Rule{
		{"VLLMThroughputDrop",
			"sum " + byPod + " (rate(vllm:generation_tokens_total[2m])) / sum " + byPod +
				" (rate(vllm:generation_tokens_total[5m] offset 5m)) < 0.5 and " + asBusy(byPod, "vllm:num_requests_running"),
			2 * time.Minute, "warning", "{{ $labels.pod }} generates less than half of what it did",
			func(h *history) vector {
				return h.trend("vllm:generation_tokens_total", podLabels...).below(.5).
					and(h.asBusy("vllm:num_requests_running", podLabels...), podLabels...)
			}},
		{"VLLMEngineHang",
			"max " + byPod + " (vllm:num_requests_running) > 0 and sum " + byPod + " (rate(vllm:generation_tokens_total[3m])) == 0",
			2 * time.Minute, "critical", "{{ $labels.pod }} runs requests and generates nothing",
			func(h *history) vector {
				flat := h.rate("vllm:generation_tokens_total", 180, 0).sum(podLabels...).equal(0)
				return h.now("vllm:num_requests_running").largest(podLabels...).above(0).and(flat, podLabels...)
			}},
		{"VLLMKVHeldWhileIdle",
			"max " + byPod + " (vllm:kv_cache_usage_perc) > 0.1 and sum " + byPod +
				" (vllm:num_requests_running + vllm:num_requests_waiting) == 0",
			30 * time.Second, "warning", "{{ $labels.pod }} holds KV blocks and has no requests",
			func(h *history) vector {
				load := append(h.now("vllm:num_requests_running"), h.now("vllm:num_requests_waiting")...).sum(podLabels...)
				return h.now("vllm:kv_cache_usage_perc").largest(podLabels...).above(.1).and(load.equal(0), podLabels...)
			}},
		{"VLLMPrefixCacheHitRateLow",
			"sum " + byPool + " (rate(vllm:prefix_cache_hits_total[5m])) / sum " + byPool +
				" (rate(vllm:prefix_cache_queries_total[5m])) < 0.1",
			5 * time.Minute, "info", "Prefix cache hit ratio of {{ $labels.model_name }} is under 10%",
			func(h *history) vector {
				return h.ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total").below(.1)
			}},
		{"VLLMMostRequestsAborted",
			"sum " + byPool + " (rate(vllm:request_success_total{finished_reason=\"abort\"}[5m])) / sum " + byPool +
				" (rate(vllm:request_success_total[5m])) > 0.6",
			2 * time.Minute, "warning", "Clients of {{ $labels.model_name }} hang up on more than 60% of their requests",
			func(h *history) vector {
				left := h.rate("vllm:request_success_total", 300, 0)
				return left.with("finished_reason", "abort").sum(poolLabels...).per(left.sum(poolLabels...), poolLabels...).above(.6)
			}},
	}
}

// httpRules are the rules on the HTTP server in vLLM.
func httpRules() []Rule {
	return []Rule{
		{"VLLMHighErrorRate",
			"sum by (namespace, pod) (rate(http_requests_total{job=\"vllm\",status=\"5xx\"}[1m])) / sum by (namespace, pod) " +
				"(rate(http_requests_total{job=\"vllm\"}[1m])) > 0.05",
			time.Minute, "critical", "More than 5% of the requests to {{ $labels.pod }} fail",
			func(h *history) vector {
				all := h.rate("http_requests_total", 60, 0).with("job", "vllm")
				return all.with("status", "5xx").sum("namespace", "pod").per(all.sum("namespace", "pod"), "namespace", "pod").above(.05)
			}},
	}
}

// pickerRules are the rules on llm-d's endpoint picker.
func pickerRules() []Rule {
	return []Rule{
		{"EPPNoReadyEndpoints", "llm_d_epp_ready_endpoints == 0",
			2 * time.Minute, "critical", "The gateway has no endpoint for {{ $labels.name }}",
			func(h *history) vector { return h.now("llm_d_epp_ready_endpoints").equal(0) }},
		{"EPPHighErrorRatio", gatewayErrors + " > 0.05",
			10 * time.Minute, "warning", "The gateway fails more than 5% of the requests for {{ $labels.model_name }}",
			func(h *history) vector { return h.gatewayErrors().above(.05) }},
		{"EPPCriticalErrorRatio", gatewayErrors + " > 0.20",
			5 * time.Minute, "critical", "The gateway fails more than 20% of the requests for {{ $labels.model_name }}",
			func(h *history) vector { return h.gatewayErrors().above(.20) }},
	}
}

// gatewayErrors is the share of requests that the endpoint picker or a worker fails. The picker's
// counter of requests leaves out those that it fails itself.
const gatewayErrors = "sum " + byPool + " (rate(llm_d_epp_request_error_total[5m])) / sum " + byPool + " (" +
	`rate(llm_d_epp_request_total[5m]) or rate(llm_d_epp_request_error_total{error_code!="ModelServerError"}[5m]))`

// gatewayErrors evaluates the constant gatewayErrors.
func (h *history) gatewayErrors() vector {
	failed := h.rate("llm_d_epp_request_error_total", 300, 0)
	own := failed.with("error_code", front.NoEndpoint, front.Internal, front.Shed)
	all := append(h.rate("llm_d_epp_request_total", 300, 0), own...)
	return failed.sum(poolLabels...).per(all.sum(poolLabels...), poolLabels...)
}
