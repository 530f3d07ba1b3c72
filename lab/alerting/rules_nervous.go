package alerting

import (
	"time"

	"paramedic/lab/engine"
)

// NervousRules returns rules of the kind that real fleets have and that fire on healthy ones: their
// thresholds are too low, or they alert on every change. Decoys are scored with them.
func NervousRules(k engine.Kind) []Rule {
	job := k.Job()
	kv, running, generated, ttft, e2e := "vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:generation_tokens_total",
		"vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"
	switch k {
	case engine.TRTLLM:
		kv, running, generated, ttft, e2e = "trtllm_kv_cache_utilization", "trtllm_num_requests_running", "trtllm_generation_tokens_total",
			"trtllm_time_to_first_token_seconds", "trtllm_e2e_request_latency_seconds"
	case engine.SGLang:
		kv, running, generated, ttft, e2e = "sglang:token_usage", "sglang:num_running_reqs", "sglang:generation_tokens_total",
			"sglang:time_to_first_token_seconds", "sglang:e2e_request_latency_seconds"
	}
	return []Rule{
		{k.RulePrefix() + "KVCacheHigh", "max " + byPod + " (" + kv + ") > 0.80",
			3 * time.Minute, "warning", "KV cache of {{ $labels.pod }} is over 80% full",
			func(h *history) vector { return h.now(kv).largest(podLabels...).above(.80) }},
		{k.RulePrefix() + "TTFTP99High",
			"histogram_quantile(0.99, sum by (le, namespace, model_name) (rate(" + ttft + "_bucket[5m]))) > 1",
			2 * time.Minute, "warning", "p99 time to first token of {{ $labels.model_name }} is over 1 s",
			func(h *history) vector { return h.quantile(.99, ttft, 300, poolLabels...).above(1) }},
		{k.RulePrefix() + "ManyRequestsRunning", "sum " + byPool + " (" + running + ") > 60",
			2 * time.Minute, "warning", "More than 60 requests run on {{ $labels.model_name }}",
			func(h *history) vector { return h.now(running).sum(poolLabels...).above(60) }},
		{k.RulePrefix() + "PoolThroughputDrop",
			"sum " + byPool + " (rate(" + generated + "[2m])) < 0.6 * sum " + byPool + " (rate(" + generated + "[5m] offset 5m))",
			time.Minute, "warning", "{{ $labels.model_name }} generates much less than it did",
			func(h *history) vector { return h.trend(generated, poolLabels...).below(.6) }},
		{k.RulePrefix() + "SlowRequests",
			"histogram_quantile(0.99, sum by (le, namespace, model_name) (rate(" + e2e + "_bucket[5m]))) > 90",
			2 * time.Minute, "warning", "p99 request latency of {{ $labels.model_name }} is over 90 s",
			func(h *history) vector { return h.quantile(.99, e2e, 300, poolLabels...).above(90) }},
		{k.RulePrefix() + "TargetDown", "up{job=\"" + job + "\"} == 0",
			30 * time.Second, "warning", "{{ $labels.pod }} cannot be scraped",
			func(h *history) vector { return h.now("up").with("job", job).equal(0) }},
		{"DeploymentReplicasMismatch", "kube_deployment_spec_replicas != kube_deployment_status_replicas_available",
			30 * time.Second, "warning", "{{ $labels.deployment }} has not the replicas it wants",
			func(h *history) vector {
				on := []string{"namespace", "deployment"}
				r := h.now("kube_deployment_status_replicas_available").per(h.now("kube_deployment_spec_replicas"), on...)
				return r.where(func(x float64) bool { return x != 1 })
			}},
		{"DeploymentGenerationChanged", "changes(kube_deployment_metadata_generation[5m]) > 0",
			0, "info", "{{ $labels.deployment }} was changed",
			func(h *history) vector { return h.changes("kube_deployment_metadata_generation", 300).above(0) }},
	}
}

// Nervous adds the nervous rules to those that the Ruler evaluates.
func (r *Ruler) Nervous() { r.watch(NervousRules(r.fleet.Config().Kind)) }
