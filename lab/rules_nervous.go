package lab

import "time"

// NervousRules are rules that people really have and that fire on healthy fleets: thresholds below what hurts, and rules that take any
// change for trouble. Decoys are watched by them.
func NervousRules() []Rule {
	pod := []string{"namespace", "model_name", "pod"}
	pool := []string{"namespace", "model_name"}
	const m = 60.0
	byPod, byPool := "by (namespace, model_name, pod)", "by (namespace, model_name)"
	return []Rule{
		{"VLLMKVCacheHigh", "max " + byPod + " (vllm:kv_cache_usage_perc) > 0.80", 3 * time.Minute, "warning", "KV cache of {{ $labels.pod }} is over 80% full",
			func(h *history) vector { return h.now("vllm:kv_cache_usage_perc").largest(pod...).above(.80) }},
		{"VLLMTTFTP99High", "histogram_quantile(0.99, sum by (le, namespace, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 1", 2 * time.Minute, "warning", "p99 time to first token of {{ $labels.model_name }} is over 1 s",
			func(h *history) vector {
				return h.quantile(.99, "vllm:time_to_first_token_seconds", 5*m, pool...).above(1)
			}},
		{"VLLMManyRequestsRunning", "sum " + byPool + " (vllm:num_requests_running) > 60", 2 * time.Minute, "warning", "More than 60 requests run on {{ $labels.model_name }}",
			func(h *history) vector { return h.now("vllm:num_requests_running").sum(pool...).above(60) }},
		{"VLLMPoolThroughputDrop", "sum " + byPool + " (rate(vllm:generation_tokens_total[2m])) < 0.6 * sum " + byPool + " (rate(vllm:generation_tokens_total[5m] offset 5m))", time.Minute, "warning", "{{ $labels.model_name }} generates much less than it did",
			func(h *history) vector {
				r := h.rate("vllm:generation_tokens_total", 2*m, 0).sum(pool...).per(h.rate("vllm:generation_tokens_total", 5*m, 5*m).sum(pool...), pool...)
				return r.where(func(x float64) bool { return x < .6 })
			}},
		{"VLLMSlowRequests", "histogram_quantile(0.99, sum by (le, namespace, model_name) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 90", 2 * time.Minute, "warning", "p99 request latency of {{ $labels.model_name }} is over 90 s",
			func(h *history) vector {
				return h.quantile(.99, "vllm:e2e_request_latency_seconds", 5*m, pool...).above(90)
			}},
		{"VLLMTargetDown", "up{job=\"vllm\"} == 0", 30 * time.Second, "warning", "{{ $labels.pod }} cannot be scraped",
			func(h *history) vector {
				return h.now("up").with("job", "vllm").where(func(x float64) bool { return x == 0 })
			}},
		{"DeploymentReplicasMismatch", "kube_deployment_spec_replicas != kube_deployment_status_replicas_available", 30 * time.Second, "warning", "{{ $labels.deployment }} has not the replicas it wants",
			func(h *history) vector {
				on := []string{"namespace", "deployment"}
				r := h.now("kube_deployment_status_replicas_available").per(h.now("kube_deployment_spec_replicas"), on...)
				return r.where(func(x float64) bool { return x != 1 })
			}},
		{"DeploymentGenerationChanged", "changes(kube_deployment_metadata_generation[5m]) > 0", 0, "info", "{{ $labels.deployment }} was changed",
			func(h *history) vector { return h.changes("kube_deployment_metadata_generation", 5*m).above(0) }},
	}
}

// nervousMetrics are what the nervous rules read besides what the usual ones do.
var nervousMetrics = []string{
	"vllm:e2e_request_latency_seconds", "kube_deployment_spec_replicas", "kube_deployment_status_replicas_available", "kube_deployment_metadata_generation",
}

// Nervous lets the Ruler evaluate the nervous rules too.
func (r *Ruler) Nervous() {
	r.rules = append(r.rules, NervousRules()...)
	for _, name := range nervousMetrics {
		r.want[name] = true
	}
}
