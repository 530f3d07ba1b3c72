package alerting

import (
	"slices"
	"time"
)

// sglangRules are the rules on SGLang's series: those of deploy/prometheus/sglang.yml, and the
// usual ones for vLLM. A rule that compares with the past looks back minutes instead of hours. No
// rule is about failed requests, because SGLang does not count them.
func sglangRules() []Rule { return slices.Concat(sglangLatencyRules(), sglangEngineRules()) }

// sglangLatencyRules are the rules on full workers, queues, latency and retractions.
func sglangLatencyRules() []Rule {
	ttft, itl := usualQuantile("sglang:time_to_first_token_seconds"), usualQuantile("sglang:inter_token_latency_seconds")
	queue := usualQuantile("sglang:queue_time_seconds")
	return []Rule{
		{"SGLangTokenUsageHigh", "max " + byPod + " (sglang:token_usage) > 0.90",
			2 * time.Minute, "critical", "KV cache of {{ $labels.pod }} is over 90% full",
			func(h *history) vector { return h.now("sglang:token_usage").largest(podLabels...).above(.90) }},
		{"SGLangQueueBuildup", "max " + byPod + " (sglang:num_queue_reqs) > 20",
			time.Minute, "warning", "More than 20 requests wait on {{ $labels.pod }}",
			func(h *history) vector { return h.now("sglang:num_queue_reqs").largest(podLabels...).above(20) }},
		{"SGLangTTFTHigh", ttft.expr("0.95") + " > 4",
			2 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 4 s",
			func(h *history) vector { return ttft.of(h, .95).above(4) }},
		{"SGLangTTFTCritical", ttft.expr("0.95") + " > 6",
			5 * time.Minute, "critical", "p95 time to first token of {{ $labels.model_name }} is over 6 s",
			func(h *history) vector { return ttft.of(h, .95).above(6) }},
		{"SGLangInterTokenLatencyHigh", itl.expr("0.95") + " > 0.15",
			3 * time.Minute, "warning", "p95 inter-token latency of {{ $labels.model_name }} is over 150 ms",
			func(h *history) vector { return itl.of(h, .95).above(.15) }},
		{"SGLangInterTokenLatencyElevated", itl.expr("0.5") + " > 0.03",
			3 * time.Minute, "warning", "Half of the tokens of {{ $labels.model_name }} take over 30 ms",
			func(h *history) vector { return itl.of(h, .5).above(.03) }},
		{"SGLangQueueTimeHigh", queue.expr("0.95") + " > 2",
			10 * time.Minute, "warning", "p95 queue time of {{ $labels.model_name }} is over 2 s",
			func(h *history) vector { return queue.of(h, .95).above(2) }},
		{"SGLangRetractions", "sum " + byPool + " (rate(sglang:num_retractions_sum[5m])) > 0.2",
			2 * time.Minute, "warning", "{{ $labels.model_name }} retracts requests",
			func(h *history) vector {
				return h.rate("sglang:num_retractions_sum", 300, 0).sum(poolLabels...).above(.2)
			}},
	}
}

// sglangEngineRules are the rules on each engine's throughput, cache and aborted requests.
func sglangEngineRules() []Rule {
	decoded := func(h *history, window, offset float64) vector {
		return h.rate("sglang:realtime_tokens_total", window, offset).with("mode", "decode").sum(podLabels...)
	}
	const decode = `sum by (namespace, model_name, pod) (rate(sglang:realtime_tokens_total{mode="decode"}`
	return []Rule{
		{"SGLangThroughputDrop",
			decode + "[2m])) / " + decode + "[5m] offset 5m)) < 0.5 and " + asBusy(byPod, "sglang:num_running_reqs"),
			2 * time.Minute, "warning", "{{ $labels.pod }} generates less than half of what it did",
			func(h *history) vector {
				r := decoded(h, 120, 0).per(decoded(h, 300, 300), podLabels...)
				return r.below(.5).and(h.asBusy("sglang:num_running_reqs", podLabels...), podLabels...)
			}},
		{"SGLangEngineStalled",
			"max " + byPod + " (sglang:num_running_reqs) > 0 and sum " + byPod + " (rate(sglang:realtime_tokens_total[3m])) == 0",
			2 * time.Minute, "critical", "{{ $labels.pod }} runs requests and computes nothing",
			func(h *history) vector {
				flat := h.rate("sglang:realtime_tokens_total", 180, 0).sum(podLabels...).equal(0)
				return h.now("sglang:num_running_reqs").largest(podLabels...).above(0).and(flat, podLabels...)
			}},
		{"SGLangKVHeldWhileIdle",
			"max " + byPod + " (sglang:token_usage) > 0.1 and sum " + byPod + " (sglang:num_running_reqs + sglang:num_queue_reqs) == 0",
			15 * time.Second, "warning", "{{ $labels.pod }} holds KV cache and has no requests",
			func(h *history) vector {
				load := append(h.now("sglang:num_running_reqs"), h.now("sglang:num_queue_reqs")...).sum(podLabels...)
				return h.now("sglang:token_usage").largest(podLabels...).above(.1).and(load.equal(0), podLabels...)
			}},
		{"SGLangCacheHitsDropped",
			"sum " + byPool + ` (rate(sglang:realtime_tokens_total{mode="prefill_cache"}[5m])) / sum ` + byPool +
				` (rate(sglang:realtime_tokens_total{mode=~"prefill_cache|prefill_compute"}[5m])) < 0.1`,
			5 * time.Minute, "info", "Prefix cache hit ratio of {{ $labels.model_name }} is under 10%",
			func(h *history) vector {
				all := h.rate("sglang:realtime_tokens_total", 300, 0).with("mode", "prefill_cache", "prefill_compute")
				return all.with("mode", "prefill_cache").sum(poolLabels...).per(all.sum(poolLabels...), poolLabels...).below(.1)
			}},
		{"SGLangAborts",
			"sum " + byPool + " (rate(sglang:num_aborted_requests_total[5m])) / sum " + byPool +
				" (rate(sglang:num_requests_total[5m])) > 0.6",
			2 * time.Minute, "warning", "Clients of {{ $labels.model_name }} hang up on more than 60% of their requests",
			func(h *history) vector {
				return h.ratio("sglang:num_aborted_requests_total", "sglang:num_requests_total").above(.6)
			}},
	}
}
