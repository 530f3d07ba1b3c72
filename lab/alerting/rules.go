package alerting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/lab"

	"go.yaml.in/yaml/v3"
)

// A Rule is an alert rule, for a real Prometheus as Expr and for the Ruler as Go that means the
// same.
type Rule struct {
	Name     string
	Expr     string
	For      time.Duration
	Severity string
	Summary  string

	eval func(h *history) vector
}

// Rules are the alert rules of the lab for a kind: the usual ones, with the names and thresholds
// that people use, in the metric names of the release that is simulated. Where a rule is usually
// quoted with a ten-minute hold it has it here too.
func Rules(k lab.Kind) []Rule {
	switch k {
	case lab.SGLang:
		return slices.Concat(sglangRules(), pickerRules(), commonRules(k))
	case lab.TRTLLM:
		return slices.Concat(trtllmRules(), pickerRules(), commonRules(k))
	case lab.Dynamo: // Dynamo's rules are loaded beside those of the engine
		return slices.Concat(vllmRules(), dynamoRules(), commonRules(k))
	}
	return slices.Concat(vllmRules(), httpRules(), pickerRules(), commonRules(k))
}

// vllmRules are the rules on vLLM's own series.
func vllmRules() []Rule {
	pod := []string{"namespace", "model_name", "pod"}
	pool := []string{"namespace", "model_name"}
	const m = 60.0
	byPod, byPool := "by (namespace, model_name, pod)", "by (namespace, model_name)"
	quantile := func(q, metric string) string {
		return fmt.Sprintf("histogram_quantile(%s, sum by (le, namespace, model_name) (rate(%s_bucket[5m])))", q, metric)
	}
	return []Rule{
		{"VLLMKVCacheExhaustion", "max " + byPod + " (vllm:kv_cache_usage_perc) > 0.90", 2 * time.Minute, "critical", "KV cache of {{ $labels.pod }} is over 90% full",
			func(h *history) vector { return h.now("vllm:kv_cache_usage_perc").largest(pod...).above(0.90) }},
		{"VLLMRequestQueueBackup", "max " + byPod + " (vllm:num_requests_waiting) > 20", time.Minute, "warning", "More than 20 requests wait on {{ $labels.pod }}",
			func(h *history) vector { return h.now("vllm:num_requests_waiting").largest(pod...).above(20) }},
		{"VLLMTTFTDegradation", quantile("0.95", "vllm:time_to_first_token_seconds") + " > 5", 2 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 5 s",
			func(h *history) vector {
				return h.quantile(.95, "vllm:time_to_first_token_seconds", 5*m, pool...).above(5)
			}},
		{"VLLMHighTTFT", quantile("0.95", "vllm:time_to_first_token_seconds") + " > 3", 10 * time.Minute, "warning", "p95 time to first token of {{ $labels.model_name }} is over 3 s",
			func(h *history) vector {
				return h.quantile(.95, "vllm:time_to_first_token_seconds", 5*m, pool...).above(3)
			}},
		{"VLLMHighITL", quantile("0.95", "vllm:inter_token_latency_seconds") + " > 0.15", 3 * time.Minute, "warning", "p95 inter-token latency of {{ $labels.model_name }} is over 150 ms",
			func(h *history) vector {
				return h.quantile(.95, "vllm:inter_token_latency_seconds", 5*m, pool...).above(.15)
			}},
		{"VLLMElevatedITL", quantile("0.5", "vllm:inter_token_latency_seconds") + " > 0.03", 3 * time.Minute, "warning", "Half of the tokens of {{ $labels.model_name }} take over 30 ms",
			func(h *history) vector {
				return h.quantile(.5, "vllm:inter_token_latency_seconds", 5*m, pool...).above(.03)
			}},
		{"VLLMQueueTimeHigh", quantile("0.95", "vllm:request_queue_time_seconds") + " > 2", 10 * time.Minute, "warning", "p95 queue time of {{ $labels.model_name }} is over 2 s",
			func(h *history) vector {
				return h.quantile(.95, "vllm:request_queue_time_seconds", 5*m, pool...).above(2)
			}},
		{"LLMPreemptionStorm", "sum " + byPool + " (rate(vllm:num_preemptions_total[5m])) > 1", 2 * time.Minute, "critical", "{{ $labels.model_name }} preempts more than one request a second",
			func(h *history) vector { return h.rate("vllm:num_preemptions_total", 5*m, 0).sum(pool...).above(1) }},
		{"VLLMPreemptionRelatedDegradation", "sum " + byPool + " (increase(vllm:num_preemptions_total[10m])) > 0 and " + quantile("0.95", "vllm:time_to_first_token_seconds") + " > 3", 10 * time.Minute, "warning", "{{ $labels.model_name }} preempts requests and is slow",
			func(h *history) vector {
				return h.rate("vllm:num_preemptions_total", 10*m, 0).sum(pool...).above(0).and(h.quantile(.95, "vllm:time_to_first_token_seconds", 5*m, pool...).above(3), pool...)
			}},
		{"VLLMThroughputDrop", "sum " + byPod + " (rate(vllm:generation_tokens_total[2m])) / sum " + byPod + " (rate(vllm:generation_tokens_total[5m] offset 5m)) < 0.5 and " + asBusy(byPod, "vllm:num_requests_running"), 2 * time.Minute, "warning", "{{ $labels.pod }} generates less than half of what it did",
			func(h *history) vector {
				r := h.rate("vllm:generation_tokens_total", 2*m, 0).sum(pod...).per(h.rate("vllm:generation_tokens_total", 5*m, 5*m).sum(pod...), pod...)
				return r.where(func(x float64) bool { return x < .5 }).and(h.asBusy("vllm:num_requests_running", pod...), pod...)
			}},
		{"VLLMEngineHang", "max " + byPod + " (vllm:num_requests_running) > 0 and sum " + byPod + " (rate(vllm:generation_tokens_total[3m])) == 0", 2 * time.Minute, "critical", "{{ $labels.pod }} runs requests and generates nothing",
			func(h *history) vector {
				flat := h.rate("vllm:generation_tokens_total", 3*m, 0).sum(pod...).where(func(x float64) bool { return x == 0 })
				return h.now("vllm:num_requests_running").largest(pod...).above(0).and(flat, pod...)
			}},
		{"VLLMKVHeldWhileIdle", "max " + byPod + " (vllm:kv_cache_usage_perc) > 0.1 and sum " + byPod + " (vllm:num_requests_running + vllm:num_requests_waiting) == 0", 30 * time.Second, "warning", "{{ $labels.pod }} holds KV blocks and has no requests",
			func(h *history) vector {
				load := append(h.now("vllm:num_requests_running"), h.now("vllm:num_requests_waiting")...).sum(pod...)
				return h.now("vllm:kv_cache_usage_perc").largest(pod...).above(.1).and(load.where(func(x float64) bool { return x == 0 }), pod...)
			}},
		{"VLLMPrefixCacheHitRateLow", "sum " + byPool + " (rate(vllm:prefix_cache_hits_total[5m])) / sum " + byPool + " (rate(vllm:prefix_cache_queries_total[5m])) < 0.1", 5 * time.Minute, "info", "Prefix cache hit ratio of {{ $labels.model_name }} is under 10%",
			func(h *history) vector {
				return h.rate("vllm:prefix_cache_hits_total", 5*m, 0).sum(pool...).per(h.rate("vllm:prefix_cache_queries_total", 5*m, 0).sum(pool...), pool...).where(func(x float64) bool { return x < .1 })
			}},
		{"VLLMMostRequestsAborted", "sum " + byPool + " (rate(vllm:request_success_total{finished_reason=\"abort\"}[5m])) / sum " + byPool + " (rate(vllm:request_success_total[5m])) > 0.6", 2 * time.Minute, "warning", "Clients of {{ $labels.model_name }} hang up on more than 60% of their requests",
			func(h *history) vector {
				left := h.rate("vllm:request_success_total", 5*m, 0)
				return left.with("finished_reason", "abort").sum(pool...).per(left.sum(pool...), pool...).above(.6)
			}},
	}
}

// httpRules are the rules on the HTTP server that vLLM brings along.
func httpRules() []Rule {
	const m = 60.0
	return []Rule{
		{"VLLMHighErrorRate", "sum by (namespace, pod) (rate(http_requests_total{job=\"vllm\",status=\"5xx\"}[1m])) / sum by (namespace, pod) (rate(http_requests_total{job=\"vllm\"}[1m])) > 0.05", time.Minute, "critical", "More than 5% of the requests to {{ $labels.pod }} fail",
			func(h *history) vector {
				all := h.rate("http_requests_total", m, 0).with("job", "vllm")
				return all.with("status", "5xx").sum("namespace", "pod").per(all.sum("namespace", "pod"), "namespace", "pod").above(.05)
			}},
	}
}

// pickerRules are the rules on llm-d's endpoint picker.
func pickerRules() []Rule {
	return []Rule{
		{"EPPNoReadyEndpoints", "llm_d_epp_ready_endpoints == 0", 2 * time.Minute, "critical", "The gateway has no endpoint for {{ $labels.name }}",
			func(h *history) vector {
				return h.now("llm_d_epp_ready_endpoints").where(func(x float64) bool { return x == 0 })
			}},
		{"EPPHighErrorRatio", gatewayErrors + " > 0.05", 10 * time.Minute, "warning", "The gateway fails more than 5% of the requests for {{ $labels.model_name }}",
			func(h *history) vector { return h.gatewayErrors().above(.05) }},
		{"EPPCriticalErrorRatio", gatewayErrors + " > 0.20", 5 * time.Minute, "critical", "The gateway fails more than 20% of the requests for {{ $labels.model_name }}",
			func(h *history) vector { return h.gatewayErrors().above(.20) }},
	}
}

// commonRules are the rules on what every kind has: targets, GPUs, containers, nodes, answers.
func commonRules(k lab.Kind) []Rule {
	const m = 60.0
	running := "vllm:num_requests_running"
	switch k {
	case lab.SGLang:
		running = "sglang:num_running_reqs"
	case lab.TRTLLM:
		running = "trtllm_num_requests_running"
	}
	return []Rule{
		{k.RulePrefix() + "WorkerDown", "up{job=\"" + k.Job() + "\"} == 0", 2 * time.Minute, "critical", "{{ $labels.pod }} cannot be scraped",
			func(h *history) vector {
				return h.now("up").with("job", k.Job()).where(func(x float64) bool { return x == 0 })
			}},
		{"GPUMemoryHighUtilization", "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95", 2 * time.Minute, "critical", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} is over 95% full",
			func(h *history) vector {
				used, free := h.now("DCGM_FI_DEV_FB_USED"), h.now("DCGM_FI_DEV_FB_FREE")
				all := append(append(vector{}, used...), free...).sum("UUID")
				return used.per(all, "UUID").above(.95)
			}},
		{"LLMRefusalRateHigh", answersShare("llm_refusals_total") + " > 0.05", 2 * time.Minute, "warning", "More than 5% of the answers of {{ $labels.model_name }} refuse",
			func(h *history) vector { return h.answersShare("llm_refusals_total").above(.05) }},
		{"LLMEmptyResponsesHigh", answersShare("llm_empty_responses_total") + " > 0.02", 5 * time.Minute, "warning", "More than 2% of the answers of {{ $labels.model_name }} are empty",
			func(h *history) vector { return h.answersShare("llm_empty_responses_total").above(.02) }},
		{"GPUIdleUnderLoad", `max by (exported_namespace, exported_pod) (DCGM_FI_DEV_GPU_UTIL{exported_pod!=""}) < 30 and on (exported_namespace, exported_pod) ` +
			`label_replace(label_replace(max by (namespace, pod) (` + running + `) > 4, "exported_pod", "$1", "pod", "(.+)"), "exported_namespace", "$1", "namespace", "(.+)")`,
			3 * time.Minute, "warning", "The GPUs of {{ $labels.exported_pod }} are busy for less than 30% of the time while requests run",
			func(h *history) vector {
				idle := h.now("DCGM_FI_DEV_GPU_UTIL").largest("exported_namespace", "exported_pod").where(func(x float64) bool { return x < 30 })
				return idle.and(h.now(running).largest("namespace", "pod").above(4).renamed("exported_namespace", "namespace", "exported_pod", "pod"), "exported_namespace", "exported_pod")
			}},
		{"GPUXidError", "changes((max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS))[15m:5s]) > 0 or DCGM_EXP_XID_ERRORS_COUNT > 0", 0, "critical", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} reported Xid {{ $labels.xid }}",
			func(h *history) vector {
				return append(h.changesWithout("DCGM_FI_DEV_XID_ERRORS", 15*m, "err_code", "err_msg").above(0), h.now("DCGM_EXP_XID_ERRORS_COUNT").above(0)...)
			}},
		{"GPUThermalThrottling", "max by (Hostname, gpu, UUID, exported_namespace, exported_pod) (DCGM_EXP_CLOCK_EVENTS_COUNT{clock_event=~\"hw_slowdown|hw_thermal|sw_thermal\"}) > 0", time.Minute, "warning", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} is slowed down by its heat",
			func(h *history) vector {
				hot := h.now("DCGM_EXP_CLOCK_EVENTS_COUNT").with("clock_event", "hw_slowdown", "hw_thermal", "sw_thermal")
				return hot.largest("Hostname", "gpu", "UUID", "exported_namespace", "exported_pod").above(0)
			}},
		{"GPUMemoryGrowth", "predict_linear(DCGM_FI_DEV_FB_USED[10m], 3600) > DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE and min_over_time(DCGM_FI_DEV_FB_USED[10m]) > 1000 and changes(DCGM_FI_DEV_FB_USED[10m]) > 3", 3 * time.Minute, "warning", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} will be full within an hour",
			func(h *history) vector {
				all := append(append(vector{}, h.now("DCGM_FI_DEV_FB_USED")...), h.now("DCGM_FI_DEV_FB_FREE")...).sum("UUID")
				inUse := h.lowest("DCGM_FI_DEV_FB_USED", 10*m).above(1000) // a model that loads is no leak
				return h.predict("DCGM_FI_DEV_FB_USED", 10*m, 3600).per(all, "UUID").above(1).and(inUse, "UUID").and(h.changes("DCGM_FI_DEV_FB_USED", 10*m).above(3), "UUID")
			}},
		{"KubeNodeNotReady", "kube_node_status_condition{condition=\"Ready\",status=\"true\"} == 0", time.Minute, "critical", "{{ $labels.node }} is not ready",
			func(h *history) vector {
				ready := h.now("kube_node_status_condition").with("condition", "Ready").with("status", "true")
				return ready.where(func(x float64) bool { return x == 0 })
			}},
		{"ContainerMemoryGrowth", "predict_linear(container_memory_working_set_bytes{container=\"" + k.Container() + "\"}[10m], 3600) > on (namespace, pod) group_left () kube_pod_container_resource_limits{container=\"" + k.Container() + "\",resource=\"memory\"} and on (namespace, pod) time() - kube_pod_start_time > 900", 5 * time.Minute, "warning", "{{ $labels.pod }} will reach its memory limit within an hour",
			func(h *history) vector {
				limits := h.now("kube_pod_container_resource_limits").with("resource", "memory")
				over := h.predict("container_memory_working_set_bytes", 10*m, 3600).per(limits, "namespace", "pod").above(1)
				return over.and(h.age("kube_pod_start_time").above(900), "namespace", "pod") // while it loads, memory rises
			}},
		{"ContainerOOMKilled", "kube_pod_container_status_last_terminated_reason{reason=\"OOMKilled\"} == 1 and on (namespace, pod, container) increase(kube_pod_container_status_restarts_total[10m]) > 0", 0, "critical", "{{ $labels.pod }} was killed at its memory limit",
			func(h *history) vector {
				killed := h.now("kube_pod_container_status_last_terminated_reason").with("reason", "OOMKilled")
				return killed.and(h.rate("kube_pod_container_status_restarts_total", 10*m, 0).above(0), "namespace", "pod", "container")
			}},
		{"ContainerCannotStart", "kube_pod_container_status_waiting_reason{reason=~\"ImagePullBackOff|ErrImagePull|CreateContainerConfigError\"} == 1", time.Minute, "warning", "{{ $labels.pod }} cannot start: {{ $labels.reason }}",
			func(h *history) vector {
				var out vector
				for _, reason := range []string{"ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"} {
					out = append(out, h.now("kube_pod_container_status_waiting_reason").with("reason", reason)...)
				}
				return out
			}},
		{"KubePodCrashLooping", "kube_pod_container_status_waiting_reason{reason=\"CrashLoopBackOff\"} == 1 or increase(kube_pod_container_status_restarts_total[5m]) > 1.5", 0, "warning", "{{ $labels.pod }} keeps crashing",
			func(h *history) vector {
				looping := h.now("kube_pod_container_status_waiting_reason").with("reason", "CrashLoopBackOff")
				return append(looping, h.rate("kube_pod_container_status_restarts_total", 5*m, 0).above(1.5/(5*m))...)
			}},
	}
}

// gatewayErrors is the share of requests that the endpoint picker or what is behind it fails. Its
// counter of requests leaves out what it fails itself.
const gatewayErrors = "sum by (namespace, model_name) (rate(llm_d_epp_request_error_total[5m])) / sum by (namespace, model_name) (" +
	`rate(llm_d_epp_request_total[5m]) or rate(llm_d_epp_request_error_total{error_code!="ModelServerError"}[5m]))`

func (h *history) gatewayErrors() vector {
	by := []string{"namespace", "model_name"}
	failed := h.rate("llm_d_epp_request_error_total", 300, 0)
	all := append(h.rate("llm_d_epp_request_total", 300, 0), failed.with("error_code", lab.GatewayNoEndpoint)...)
	return failed.sum(by...).per(all.sum(by...), by...)
}

// keepFiring is how long a rule goes on firing after its expression went quiet. Held blocks can
// only be told from used ones while a worker is idle, and with bursty traffic that comes and goes.
func keepFiring(rule string) time.Duration {
	if strings.HasSuffix(rule, "KVHeldWhileIdle") {
		return 5 * time.Minute
	}
	return 0
}

// PrometheusRules is the same rules as a rules file for a real Prometheus.
func PrometheusRules(k lab.Kind) ([]byte, error) {
	type rule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Keep        string            `yaml:"keep_firing_for,omitempty"` // Prometheus 2.42 and newer
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
	type group struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Rules    []rule `yaml:"rules"`
	}
	g := group{Name: string(k), Interval: "5s"}
	for _, r := range Rules(k) {
		out := rule{Alert: r.Name, Expr: r.Expr, Labels: map[string]string{"severity": r.Severity}, Annotations: map[string]string{"summary": r.Summary}}
		if r.For > 0 {
			out.For = fmt.Sprintf("%ds", int(r.For.Seconds()))
		}
		if keep := keepFiring(r.Name); keep > 0 {
			out.Keep = fmt.Sprintf("%ds", int(keep.Seconds()))
		}
		g.Rules = append(g.Rules, out)
	}
	body, err := yaml.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		return nil, fmt.Errorf("writing the rules file: %w", err)
	}
	return body, nil
}

// asBusy is the condition that as many requests run as five minutes before: a worker that others
// help out generates less and is well.
func asBusy(by, running string) string {
	return "sum " + by + " (avg_over_time(" + running + "[2m])) >= 0.9 * sum " + by + " (avg_over_time(" + running + "[5m] offset 5m)) > 0"
}

func (h *history) asBusy(running string, by ...string) vector {
	now, before := h.average(running, 120, 0).sum(by...), h.average(running, 300, 300).sum(by...)
	return now.per(before, by...).where(func(x float64) bool { return x >= .9 })
}

// answersShare is the share of answers that a counter of the chat service counts, as PromQL and as
// Go.
func answersShare(counter string) string {
	return "sum by (namespace, model_name) (rate(" + counter + "[5m])) / sum by (namespace, model_name) (rate(llm_requests_total[5m]))"
}

func (h *history) answersShare(counter string) vector {
	by := []string{"namespace", "model_name"}
	return h.rate(counter, 300, 0).sum(by...).per(h.rate("llm_requests_total", 300, 0).sum(by...), by...)
}
