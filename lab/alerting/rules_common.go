package alerting

import (
	"fmt"
	"slices"
	"time"

	"paramedic/lab/engine"
)

// commonRules are the rules that every kind has.
func commonRules(k engine.Kind) []Rule {
	return slices.Concat(workerRules(k), gpuRules(), kubernetesRules(k))
}

// workerRules are the rules on targets, GPU use and answers.
func workerRules(k engine.Kind) []Rule {
	running := "vllm:num_requests_running"
	switch k {
	case engine.SGLang:
		running = "sglang:num_running_reqs"
	case engine.TRTLLM:
		running = "trtllm_num_requests_running"
	}
	return []Rule{
		{k.RulePrefix() + "WorkerDown", "up{job=\"" + k.Job() + "\"} == 0",
			2 * time.Minute, "critical", "{{ $labels.pod }} cannot be scraped",
			func(h *history) vector { return h.now("up").with("job", k.Job()).equal(0) }},
		{"GPUMemoryHighUtilization", "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95",
			2 * time.Minute, "critical", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} is over 95% full",
			func(h *history) vector {
				used, free := h.now("DCGM_FI_DEV_FB_USED"), h.now("DCGM_FI_DEV_FB_FREE")
				all := slices.Concat(used, free).sum("UUID")
				return used.per(all, "UUID").above(.95)
			}},
		{"LLMRefusalRateHigh", answersShare("llm_refusals_total") + " > 0.05",
			2 * time.Minute, "warning", "More than 5% of the answers of {{ $labels.model_name }} refuse",
			func(h *history) vector { return h.ratio("llm_refusals_total", "llm_requests_total").above(.05) }},
		{"LLMEmptyResponsesHigh", answersShare("llm_empty_responses_total") + " > 0.02",
			5 * time.Minute, "warning", "More than 2% of the answers of {{ $labels.model_name }} are empty",
			func(h *history) vector { return h.ratio("llm_empty_responses_total", "llm_requests_total").above(.02) }},
		idleGPU("GPUIdleUnderLoad", 30, running, ">", 4, 3*time.Minute, "warning",
			"The GPUs of {{ $labels.exported_pod }} are busy for less than 30% of the time while requests run"),
		idleGPU("GPUIdle", 10, running, "<", 1, 10*time.Minute, "info",
			"{{ $labels.exported_pod }} has served no request for ten minutes"),
	}
}

// idleGPU returns a rule on pods whose GPUs are busy for less than a percentage of the time, while
// their running requests are above (">") or below ("<") a number.
func idleGPU(name string, busy float64, running, op string, requests float64, hold time.Duration, severity, summary string) Rule {
	compared := vector.above
	if op == "<" {
		compared = vector.below
	}
	expr := fmt.Sprintf(`max by (exported_namespace, exported_pod) (DCGM_FI_DEV_GPU_UTIL{exported_pod!=""}) < %g `+
		`and on (exported_namespace, exported_pod) `+
		`label_replace(label_replace(max by (namespace, pod) (%s) %s %g, `+
		`"exported_pod", "$1", "pod", "(.+)"), "exported_namespace", "$1", "namespace", "(.+)")`, busy, running, op, requests)
	return Rule{name, expr, hold, severity, summary, func(h *history) vector {
		idle := h.now("DCGM_FI_DEV_GPU_UTIL").largest("exported_namespace", "exported_pod").below(busy)
		return idle.and(compared(h.now(running).largest("namespace", "pod"), requests).
			renamed("exported_namespace", "namespace", "exported_pod", "pod"), "exported_namespace", "exported_pod")
	}}
}

// gpuRules are the rules on GPUs' errors, heat and memory.
func gpuRules() []Rule {
	return []Rule{
		{"GPUXidError",
			"changes((max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS))[15m:5s]) > 0 or DCGM_EXP_XID_ERRORS_COUNT > 0",
			0, "critical", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} reported Xid {{ $labels.xid }}",
			func(h *history) vector {
				return append(h.changesWithout("DCGM_FI_DEV_XID_ERRORS", 900, "err_code", "err_msg").above(0),
					h.now("DCGM_EXP_XID_ERRORS_COUNT").above(0)...)
			}},
		{"GPUThermalThrottling",
			"max by (Hostname, gpu, UUID, exported_namespace, exported_pod) " +
				"(DCGM_EXP_CLOCK_EVENTS_COUNT{clock_event=~\"hw_slowdown|hw_thermal|sw_thermal\"}) > 0",
			time.Minute, "warning", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} is slowed down by its heat",
			func(h *history) vector {
				hot := h.now("DCGM_EXP_CLOCK_EVENTS_COUNT").with("clock_event", "hw_slowdown", "hw_thermal", "sw_thermal")
				return hot.largest("Hostname", "gpu", "UUID", "exported_namespace", "exported_pod").above(0)
			}},
		{"GPUMemoryGrowth",
			"predict_linear(DCGM_FI_DEV_FB_USED[10m], 3600) > DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE and " +
				"min_over_time(DCGM_FI_DEV_FB_USED[10m]) > 1000 and changes(DCGM_FI_DEV_FB_USED[10m]) > 3",
			3 * time.Minute, "warning", "GPU {{ $labels.gpu }} on {{ $labels.Hostname }} will be full within an hour",
			func(h *history) vector {
				all := slices.Concat(h.now("DCGM_FI_DEV_FB_USED"), h.now("DCGM_FI_DEV_FB_FREE")).sum("UUID")
				inUse := h.lowest("DCGM_FI_DEV_FB_USED", 600).above(1000) // excludes a model that still loads
				growing := h.changes("DCGM_FI_DEV_FB_USED", 600).above(3)
				full := h.predict("DCGM_FI_DEV_FB_USED", 600, 3600).per(all, "UUID").above(1)
				return full.and(inUse, "UUID").and(growing, "UUID")
			}},
	}
}

// kubernetesRules are the rules on nodes and containers.
func kubernetesRules(k engine.Kind) []Rule {
	return []Rule{
		{"KubeNodeNotReady", "kube_node_status_condition{condition=\"Ready\",status=\"true\"} == 0",
			time.Minute, "critical", "{{ $labels.node }} is not ready",
			func(h *history) vector {
				ready := h.now("kube_node_status_condition").with("condition", "Ready").with("status", "true")
				return ready.equal(0)
			}},
		{"ContainerMemoryGrowth",
			"predict_linear(container_memory_working_set_bytes{container=\"" + k.Container() +
				"\"}[10m], 3600) > on (namespace, pod) group_left () kube_pod_container_resource_limits{container=\"" + k.Container() +
				"\",resource=\"memory\"} and on (namespace, pod) time() - kube_pod_start_time > 900",
			5 * time.Minute, "warning", "{{ $labels.pod }} will reach its memory limit within an hour",
			func(h *history) vector {
				limits := h.now("kube_pod_container_resource_limits").with("resource", "memory")
				over := h.predict("container_memory_working_set_bytes", 600, 3600).per(limits, "namespace", "pod").above(1)
				return over.and(h.age("kube_pod_start_time").above(900), "namespace", "pod") // memory rises while a model loads
			}},
		{"ContainerOOMKilled",
			"kube_pod_container_status_last_terminated_reason{reason=\"OOMKilled\"} == 1 and on (namespace, pod, container) " +
				"increase(kube_pod_container_status_restarts_total[10m]) > 0",
			0, "critical", "{{ $labels.pod }} was killed at its memory limit",
			func(h *history) vector {
				killed := h.now("kube_pod_container_status_last_terminated_reason").with("reason", "OOMKilled")
				return killed.and(h.rate("kube_pod_container_status_restarts_total", 600, 0).above(0), "namespace", "pod", "container")
			}},
		{"ContainerCannotStart",
			"kube_pod_container_status_waiting_reason{reason=~\"ImagePullBackOff|ErrImagePull|CreateContainerConfigError\"} == 1",
			time.Minute, "warning", "{{ $labels.pod }} cannot start: {{ $labels.reason }}",
			func(h *history) vector {
				var out vector
				for _, reason := range []string{"ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"} {
					out = append(out, h.now("kube_pod_container_status_waiting_reason").with("reason", reason)...)
				}
				return out
			}},
		{"KubePodCrashLooping",
			"kube_pod_container_status_waiting_reason{reason=\"CrashLoopBackOff\"} == 1 or " +
				"increase(kube_pod_container_status_restarts_total[5m]) > 1.5",
			0, "warning", "{{ $labels.pod }} keeps crashing",
			func(h *history) vector {
				looping := h.now("kube_pod_container_status_waiting_reason").with("reason", "CrashLoopBackOff")
				return append(looping, h.rate("kube_pod_container_status_restarts_total", 300, 0).above(1.5/300)...)
			}},
	}
}

// answersShare returns PromQL for the share of answers that a counter of the chat service counts.
func answersShare(counter string) string {
	return "sum " + byPool + " (rate(" + counter + "[5m])) / sum " + byPool + " (rate(llm_requests_total[5m]))"
}
