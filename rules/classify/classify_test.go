package classify_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/classify"
	"paramedic/rules/correlate"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

func BenchmarkClassify(b *testing.B) {
	c := rulestest.MustLoad(b)
	a := state.Alert{Labels: map[string]string{"alertname": "Ours", "model_name": "llama-70b", "namespace": "llm", "severity": "page"},
		GeneratorURL: generator(circulating[29].expr)}
	b.ReportAllocs()
	for b.Loop() {
		classify.Classify(c, a, "c")
	}
}

func BenchmarkClassifyAndCorrelate(b *testing.B) {
	c := rulestest.MustLoad(b)
	_, ev := rulestest.Fleet(c, 64)
	var open []*state.Incident
	for i := range 24 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%02d", i)), Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now}
		for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "VLLMHighTTFT"} {
			rulestest.Attach(in, classify.Classify(c, state.Alert{
				Labels: map[string]string{"alertname": name, "model_name": fmt.Sprintf("model-%d", i), "namespace": "llm"}}, "c"), name,
				rulestest.Now)
		}
		open = append(open, in)
	}
	a := state.Alert{Labels: map[string]string{"alertname": "LLMPreemptionStorm", "model_name": "model-7", "namespace": "llm"},
		GeneratorURL: generator("rate(vllm:num_preemptions_total[5m]) > 1")}
	b.ReportAllocs()
	for b.Loop() {
		s := classify.Classify(c, a, "c")
		if id, ok := correlate.Correlate(c, s, ev.Workers, open, rulestest.Now); !ok || id != "INC-07" {
			b.Fatal(id, ok)
		}
	}
}

// circulating are the thirty alert rules that users of these engines copy from each other,
// verbatim.
var circulating = []struct {
	name, expr string
	want       state.Symptom
}{
	{"LLMHighTTFT", `histogram_quantile(0.99, rate(llm_ttft_seconds_bucket[5m])) > 5`, "ttft_high"},
	{"LLMElevatedTTFT", `histogram_quantile(0.99, rate(llm_ttft_seconds_bucket[5m])) > 2`, "ttft_high"},
	{"LLMHighTBT", `histogram_quantile(0.99, rate(llm_tbt_seconds_bucket[5m])) > 0.15`, "itl_high"},
	{"LLMHighErrorRate", `sum(rate(llm_error_total[1m])) / sum(rate(llm_requests_total[1m])) > 0.05`, "error_rate"},
	{"LLMGPUMemoryCritical", `llm_gpu_memory_used_bytes / (80 * 1024 * 1024 * 1024) > 0.95`, "gpu_memory_high"},
	{"LLMKVCachePressure", `llm_kv_cache_utilization > 0.95`, "kv_pressure"},
	{"LLMPreemptionStorm", `rate(llm_preemption_total[5m]) > 1`, "preemptions"},
	{"LLMQueueBuildup", `llm_queue_depth > 200`, "queue_buildup"},
	{"VLLMKVCacheExhaustion", `vllm:gpu_cache_usage_perc > 0.90`, "kv_pressure"},
	{"VLLMRequestQueueBackup", `vllm:num_requests_waiting > 20`, "queue_buildup"},
	{"VLLMCPUSwappingActive", `vllm:num_requests_swapped > 0`, "preemptions"},
	{"VLLMLatencySLABreach", `histogram_quantile(0.95, rate(vllm:e2e_request_latency_seconds_bucket[5m])) > 30`, "e2e_high"},
	{"VLLMTTFTDegradation", `histogram_quantile(0.95, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 5`, "ttft_high"},
	{"GPUMemoryHighUtilization", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95`, "gpu_memory_high"},
	{"VLLMThroughputDrop", `rate(vllm:generation_tokens_total[5m]) < 0.5 * rate(vllm:generation_tokens_total[30m] offset 1h)`,
		"throughput_drop"},
	{"DynamoTTFTP99High", `histogram_quantile(0.99, rate(dynamo_ttft_milliseconds_bucket{model=~".+"}[5m])) > 500`, "ttft_high"},
	{"DynamoTTFTP99Critical", `histogram_quantile(0.99, rate(dynamo_ttft_milliseconds_bucket{model=~".+"}[5m])) > 2000`, "ttft_high"},
	{"DynamoTBTP99High", `histogram_quantile(0.99, rate(dynamo_tbt_milliseconds_bucket{model=~".+"}[5m])) > 100`, "itl_high"},
	{"DynamoQueueDepthHigh", `dynamo_scheduler_queue_depth > 50`, "queue_buildup"},
	{"DynamoPreemptionRateHigh", `rate(dynamo_preemptions_total[5m]) > 1`, "preemptions"},
	{"DynamoPrefixCacheHitRateLow", `histogram_quantile(0.50, rate(dynamo_prefix_cache_hit_rate_bucket[10m])) < 0.3`, "prefix_hit_low"},
	{"DynamoKVCacheNearFull", `dynamo_kv_cache_utilization{tier="gpu"} > 0.95`, "kv_pressure"},
	{"DynamoOOMEvent", `increase(dynamo_oom_events_total[5m]) > 0`, "oom"},
	{"HighTTFT", `histogram_quantile(0.95, rate(vllm_ttft_seconds_bucket[5m])) > 2.0`, "ttft_high"},
	{"KVCacheNearFull", `vllm_kv_cache_utilization > 0.95`, "kv_pressure"},
	{"QueueBuildUp", `vllm_queue_depth > 50`, "queue_buildup"},
	{"LowThroughput", `rate(vllm_output_tokens_total[5m]) < 100`, "throughput_drop"},
	{"VLLMHighTTFT", `histogram_quantile(0.95, sum by (le, cluster, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 3`,
		"ttft_high"},
	{
		"VLLMQueueTimeHigh", `histogram_quantile(0.95, sum by (le, cluster, model_name) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 2`, "queue_time_high"},
	{"VLLMPreemptionRelatedDegradation",
		`sum by (cluster, model_name) (increase(vllm:num_preemptions_total[10m])) > 0 and histogram_quantile(0.95, sum by (le, cluster, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 3`, "preemptions"},
}

func generator(expr string) string {
	return "http://prometheus:9090/graph?g0.expr=" + url.QueryEscape(expr) + "&g0.tab=1"
}

func TestPublicRulesByNameAndExpression(t *testing.T) {
	c := rulestest.MustLoad(t)
	if len(circulating) != 30 {
		t.Fatalf("%d rules, want 30", len(circulating))
	}
	for _, r := range circulating {
		byName := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": r.name}}, "x")
		if byName.Symptom != r.want || byName.By != "name" {
			t.Errorf("%s by its name: %s (%s), want %s", r.name, byName.Symptom, byName.By, r.want)
		}
		byExpr := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "Renamed"}, GeneratorURL: generator(r.expr)}, "x")
		if byExpr.Symptom != r.want || byExpr.By != "metrics" {
			t.Errorf("%s by its expression: %s (%s), want %s", r.name, byExpr.Symptom, byExpr.By, r.want)
		}
	}
}

func TestOtherRulesByExpression(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, tt := range []struct {
		expr string
		want state.Symptom
		hint string
	}{
		{`vllm:num_requests_running > 0 and rate(vllm:generation_tokens_total[3m]) == 0`, "throughput_drop", "stalled"},
		{`vllm:kv_cache_usage_perc > 0.1 and vllm:num_requests_running == 0`, "kv_pressure", "idle_kv"},
		{`vllm:kv_cache_usage_perc > 0.1 and on (pod) vllm:num_requests_running + vllm:num_requests_waiting < 1`, "kv_pressure", "idle_kv"},
		{`sglang:token_usage > 0.1 and on (pod) max by (pod) (sglang:num_running_reqs + sglang:num_queue_reqs) == 0`, "kv_pressure",
			"idle_kv"},
		{`vllm:kv_cache_usage_perc > 0.95 and vllm:num_requests_running > 10`, "kv_pressure", ""}, // full and busy
		{`rate(dynamo_frontend_output_tokens_total[3m]) == 0 and dynamo_frontend_active_requests > 0`, "throughput_drop", "stalled"},
		{`rate(dynamo_frontend_output_tokens_total[3m]) == 0 and dynamo_frontend_inflight_requests > 0`, "throughput_drop", "stalled"},
		{`sglang:num_running_reqs > 0 and rate(sglang:realtime_tokens_total[3m]) == 0`, "throughput_drop", "stalled"},
		{
			`sum(rate(sglang:realtime_tokens_total{mode="prefill_cache"}[5m])) / sum(rate(sglang:realtime_tokens_total{mode=~"prefill_.+"}[5m])) < 0.1`, "prefix_hit_low", ""},
		{`sum(rate(sglang:realtime_tokens_total{mode="decode"}[5m])) < 100`, "throughput_drop", ""},
		{`100 * (1 - sum(rate(kserve_vllm:request_success_total[5m])) / sum(rate(kserve_vllm:request_total[5m]))) > 5`, "error_rate", ""},
		{`DCGM_FI_DEV_XID_ERRORS > 0`, "gpu_hardware", "sticky_xid"},
		{`changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`, "gpu_hardware", ""},
		{`up{job="vllm"} == 0`, "target_down", ""},
		{`1 == up`, state.Unclassified, ""},
		{`absent(vllm:num_requests_running)`, "target_down", ""},
		{`sum(rate(http_requests_total{status=~"5.."}[5m])) / sum(rate(http_requests_total[5m])) > 0.05`, "error_rate", ""},
		{`sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m])) < 0.1`, "prefix_hit_low", ""},
		{`rate(vllm:request_success_total{finished_reason="abort"}[5m]) > 1`, "aborts", ""},
		{`rate(vllm:request_success_total{finished_reason="error"}[5m]) > 0.1`, "error_rate", ""},
		{`sglang:swa_token_usage > 0.95`, "kv_pressure", ""},
		{`max by (pod) (sglang:mamba_usage) > 0.95`, "kv_pressure", ""},
		{`llm_d_epp_std_dev_queue_size > 10`, "queue_buildup", ""}, // of a router that balances badly
		{`inference_extension_flow_control_queue_size > 50`, "queue_buildup", ""},
		{`increase(kube_pod_container_status_restarts_total[1h]) > 3`, "crash_loop", ""},
		{`kube_node_status_condition{condition="Ready",status="true"} == 0`, "worker_down", ""},
		{`llm_d_epp_ready_endpoints == 0`, "no_endpoints", ""},
		{`5 < vllm:num_requests_waiting`, "queue_buildup", ""},
		// A model's name, and no status.
		{`rate(dynamo_frontend_requests_total{model="qwen/qwen2.5-72b"}[5m]) > 50`, state.Unclassified, ""},
		{`sum(rate(http_requests_total{handler="/v1/5",status="2xx"}[5m])) > 50`, state.Unclassified, ""},
		{`sum(rate(http_requests_total{status="415"}[5m])) > 1`, state.Unclassified, ""},
		{`sum(rate(http_requests_total{status!~"5.."}[5m])) > 50`, state.Unclassified, ""}, // successful requests
		{`sum(rate(http_requests_total{status="5xx"}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(http_requests_total{code="503",model="qwen2.5"}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(istio_requests_total{response_code=~"4..|5.."}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(my_requests_total{http_status_code=~"[45].."}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(my_requests_total{http_status=~"^(500|502)$"}[5m])) > 1`, "error_rate", ""},
		{
			`sum(rate(envoy_cluster_upstream_rq_xx{envoy_response_code_class="5"}[5m])) / sum(rate(envoy_cluster_upstream_rq_total[5m])) > 0.05`, "error_rate", ""},
		{`sum(rate(envoy_cluster_upstream_rq{envoy_response_code="504"}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(envoy_cluster_upstream_rq{envoy_response_code="401"}[5m])) > 1`, "error_rate", "gateway_denies"},
		{`sum(rate(traefik_service_requests_total{code="403"}[5m])) > 1`, "error_rate", "gateway_denies"},
		{`sum(rate(envoy_cluster_upstream_rq_total[5m])) > 500`, state.Unclassified, ""}, // traffic
		{`sum(rate(envoy_cluster_upstream_rq_xx{envoy_response_code_class="2"}[5m])) > 500`, state.Unclassified, ""},
		{`sum(rate(nginx_ingress_controller_requests{status=~"2.."}[5m])) > 500`, state.Unclassified, ""},
		{`dynamo_component_router_gpu_cache_usage_percent > 0.95`, "kv_pressure", ""},
		{`sum(rate(envoy_http_ext_proc_streams_failed[5m])) > 0.1`, "error_rate", "picker_fails"},
		{`sum(rate(envoy_http_ext_proc_inference_pool_message_timeouts[5m])) > 0.1`, "error_rate", "picker_fails"},
		{`sum(rate(envoy_http_ext_proc_streams_started[5m])) > 500`, state.Unclassified, ""},
		{`sum(rate(nginx_ingress_controller_requests{status=~"5.."}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(sglang:http_responses_total{status_code=~"5.."}[5m])) > 1`, "error_rate", ""},
		// As callers count.
		{`sum(rate(llm_requests_total{status="error"}[5m])) / sum(rate(llm_requests_total[5m])) > 0.05`, "error_rate", ""},
		{`sum(rate(llm_requests_total{status=~"http_5.."}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(vllm_requests_completed_total{status="timeout"}[5m])) > 1`, "error_rate", ""},
		{`sum(rate(vllm_requests_completed_total{status="success"}[5m])) > 1`, state.Unclassified, ""},
		{`rate(vllm_kv_cache_evictions_total[5m]) > 10`, "preemptions", ""},
		{`avg(llm_gpu_utilization) < 0.1`, "gpu_idle", ""},
		{`avg(vllm_gpu_utilization) < 0.5`, "gpu_idle", ""},
		{`rate(DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL[5m]) > 0`, "gpu_hardware", ""},
		{`rate(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL[5m]) > 10`, "gpu_hardware", ""},
		{`increase(DCGM_FI_DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER[5m]) > 0`, "gpu_hardware", ""},
		{`dynamo_component_kvstats_gpu_cache_usage_percent > 0.95`, "kv_pressure", ""},
		// Other spellings and exporters.
		{`sglang_token_usage > 0.9`, "kv_pressure", ""},
		{`sum(ray_sglang_num_queue_reqs) > 20`, "queue_buildup", ""},
		{`kserve_vllm:gpu_cache_usage_perc > 0.95`, "kv_pressure", ""},
		{`smg_worker_health == 0`, "worker_down", ""},
		{`histogram_quantile(0.99, sum by(le) (rate(inference_objective_request_duration_seconds_bucket[5m]))) > 10`, "e2e_high", ""},
		{`sum by (inference_pool) (rate(llm_d_epp_flow_control_requests_total{outcome="RejectedCapacity"}[5m])) > 0`, "error_rate", ""},
		{`litellm_deployment_state == 2`, "worker_down", ""},
		{`envoy_cluster_membership_healthy == 0`, "no_endpoints", ""},
		{`DCGM_FI_DEV_CLOCKS_EVENT_REASONS > 0`, "gpu_throttled", ""},
		{`gpu_operator_node_driver_validation == 0`, "gpu_hardware", ""},
		{`kube_statefulset_status_observed_generation != kube_statefulset_metadata_generation`, "rollout_stuck", ""},
		// A metric after "and" is a condition, unless only it has a meaning.
		{`DCGM_FI_DEV_GPU_UTIL < 5 and DCGM_FI_DEV_FB_USED > 100`, "gpu_idle", ""},
		{`(kube_deployment_spec_replicas > kube_deployment_status_replicas_available) and changes(kube_deployment_status_replicas_updated[10m]) == 0`, "worker_down", ""},
		{`(kube_pod_container_status_restarts_total - kube_pod_container_status_restarts_total offset 10m >= 1) and ignoring(reason) kube_pod_container_status_last_terminated_reason{reason="OOMKilled"} == 1`,
			"oom", ""},
		{`vllm:num_requests_waiting > 0 and vllm:num_requests_running > 0 and rate(vllm:generation_tokens_total[5m]) == 0`, "throughput_drop", "stalled"},
		{`DCGM_FI_DEV_GPU_UTIL < 5 and changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0`, "gpu_hardware", ""},
		{`increase(kube_pod_container_status_restarts_total[10m]) > 0 and on(pod) kube_pod_container_status_last_terminated_reason{reason="Error"} == 1`,
			"crash_loop", ""},
		{`kube_horizontalpodautoscaler_status_current_replicas == kube_horizontalpodautoscaler_spec_max_replicas and on(namespace) vllm:num_requests_waiting > 10`,
			"queue_buildup", ""},
		// Of other systems.
		{`sum by(cluster) (apiserver_request:burnrate1h) > 0.144`, state.Unclassified, ""},
		{`sum(rate(rest_client_requests_total{code=~"5.."}[5m])) > 1`, state.Unclassified, ""},
		{`sum by (pod) (rate(container_memory_working_set_bytes[5m])) / sum by (pod) (container_spec_memory_limit_bytes) < 0.2`, state.Unclassified, ""},
		// Not PromQL, but often copied.
		{`histogram_quantile(0.95, vllm:time_to_first_token_seconds_bucket by (instance)) > 2`, "ttft_high", ""},
		{`node_filesystem_avail_bytes < 1e9`, state.Unclassified, ""},
	} {
		s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "X"}, GeneratorURL: generator(tt.expr)}, "x")
		if s.Symptom != tt.want || tt.hint != "" && s.Hints[tt.hint] == "" || tt.hint == "" && s.Hints["sticky_xid"]+s.Hints["stalled"]+
			s.Hints["idle_kv"]+s.Hints["gateway_denies"]+s.Hints["picker_fails"] != "" {
			t.Errorf("%s: %s, hints %v; want %s, hint %q", tt.expr, s.Symptom, s.Hints, tt.want, tt.hint)
		}
	}
}

func TestEntityFromLabels(t *testing.T) {
	c := rulestest.MustLoad(t)
	for name, tt := range map[string]struct {
		labels map[string]string
		want   state.Entity
	}{
		"DCGM behind its exporter": {
			map[string]string{
				"alertname": "DCGMXidErrors", "gpu": "3", "UUID": "GPU-1", "Hostname": "node-7", "modelName": "NVIDIA H100",
				"pod":       "dcgm-exporter-x1y2z",
				"namespace": "gpu-operator", "exported_pod": "vllm-llama-7d9f8b6c5-abcde", "exported_namespace": "llm",
			},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-llama", Pod: "vllm-llama-7d9f8b6c5-abcde", Node: "node-7", GPU: "3"},
		},
		"DCGM with no workload": {
			map[string]string{"alertname": "DCGMXidErrors", "gpu": "3", "hostname": "node-7", "pod": "dcgm-exporter-x1y2z",
				"namespace": "gpu-operator", "instance": "10.0.0.1:9400"},
			state.Entity{Cluster: "c", Node: "node-7", GPU: "3"},
		},
		"the router's copy": {
			map[string]string{"alertname": "QueueBuildUp", "server": "http://10.0.0.3:8000", "pod": "router-5d8f7c6b9-qqqqq",
				"namespace": "llm", "instance": "10.0.0.9:80"},
			state.Entity{Cluster: "c", Namespace: "llm", Instance: "10.0.0.3:8000"},
		},
		"a worker by SGLang's router": {
			map[string]string{"alertname": "WorkerUnhealthy", "worker_url": "http://10.0.0.3:30000", "pod": "sgl-router-5d8f7c6b9-qqqqq",
				"namespace": "llm", "instance": "10.0.0.9:29000"},
			state.Entity{Cluster: "c", Namespace: "llm", Instance: "10.0.0.3:30000"},
		},
		"Dynamo's own namespace": {
			map[string]string{"alertname": "DynamoTTFTP99High", "model": "qwen/qwen3-0.6b", "dynamo_namespace": "vllm-agg",
				"namespace": "serving"},
			state.Entity{Cluster: "c", Namespace: "serving", Model: "qwen/qwen3-0.6b"},
		},
		"StatefulSet": {
			map[string]string{"alertname": "X", "pod": "vllm-sts-12"}, state.Entity{Cluster: "c", Pool: "vllm-sts", Pod: "vllm-sts-12"},
		},
		"a pod that nobody owns": {
			map[string]string{"alertname": "X", "pod": "vllm-llama"}, state.Entity{Cluster: "c", Pod: "vllm-llama"},
		},
		"targets of a PodMonitor": {
			map[string]string{"alertname": "TargetDown", "cluster": "eu", "namespace": "llm", "job": "llm/vllm", "service": ""},
			state.Entity{Cluster: "c", Namespace: "llm", Job: "llm/vllm"},
		},
		"targets of a Service": {
			map[string]string{"alertname": "TargetDown", "namespace": "llm", "job": "vllm", "service": "vllm-svc"},
			state.Entity{Cluster: "c", Namespace: "llm", Job: "vllm", Service: "vllm-svc"},
		},
		"labels of the OpenTelemetry collector": {
			map[string]string{"alertname": "VLLMEngineHang", "k8s_pod_name": "vllm-qwen-7d9f8b6c5-bbbb2", "k8s_namespace_name": "llm",
				"k8s_node_name": "gpu-3", "k8s_deployment_name": "vllm-qwen"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-qwen", Pod: "vllm-qwen-7d9f8b6c5-bbbb2", Node: "gpu-3"},
		},
		"a pod, with the node of kube-state-metrics": {
			map[string]string{"alertname": "KubePodCrashLooping", "namespace": "llm", "pod": "vllm-qwen-7d9f8b6c5-bbbb2", "node": "infra-1",
				"job": "kubernetes-service-endpoints", "service": "prometheus-kube-state-metrics"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-qwen", Pod: "vllm-qwen-7d9f8b6c5-bbbb2"},
		},
		"a pod by kube-state-metrics": {
			map[string]string{"alertname": "KubePodCrashLooping", "namespace": "llm", "pod": "vllm-llama", "job": "kube-state-metrics",
				"service": "kube-state-metrics"}, state.Entity{Cluster: "c", Namespace: "llm", Pod: "vllm-llama"},
		},
		"a Deployment by kube-state-metrics with honorLabels": {
			map[string]string{"alertname": "KubeDeploymentReplicasMismatch", "namespace": "llm", "deployment": "vllm-llama",
				"pod": "prometheus-kube-state-metrics-6f8d9c7b5-qwert", "container": "kube-state-metrics", "job": "kube"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-llama"},
		},
		"a Deployment by kube-state-metrics without it": {
			map[string]string{"alertname": "KubeDeploymentReplicasMismatch", "exported_namespace": "llm", "namespace": "monitoring",
				"deployment": "vllm-llama", "pod": "kube-state-metrics-6f8d9c7b5-qwert"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-llama"},
		},
		"pods that lost their names": {
			map[string]string{"alertname": "KubeContainerWaiting", "namespace": "monitoring", "pod": "kube-state-metrics-6f8d9c7b5-qwert"},
			state.Entity{Cluster: "c"},
		},
		"a Deployment, with the node of kube-state-metrics": {
			map[string]string{"alertname": "KubeDeploymentReplicasMismatch", "namespace": "llm", "deployment": "vllm-llama", "node": "infra-1",
				"job": "kubernetes-service-endpoints", "service": "prometheus-kube-state-metrics"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-llama"},
		},
		"a machine by node-exporter": {
			map[string]string{"alertname": "NodeFilesystemAlmostOutOfSpace", "namespace": "monitoring", "job": "node-exporter",
				"pod": "prom-node-exporter-x7k2d", "container": "node-exporter", "instance": "10.0.0.5:9100"},
			state.Entity{Cluster: "c", Instance: "10.0.0.5:9100"},
		},
		"a machine by its name": {
			map[string]string{"alertname": "HostOomKillDetected", "namespace": "monitoring", "job": "node-exporter",
				"pod": "prom-node-exporter-x7k2d", "instance": "10.0.0.5:9100", "nodename": "node-7"},
			state.Entity{Cluster: "c", Node: "node-7"},
		},
		"a machine that is scraped by its name": {
			map[string]string{"alertname": "HostClockSkew", "job": "node_exporter", "instance": "node-7:9100"},
			state.Entity{Cluster: "c", Node: "node-7"},
		},
		"node-exporter itself": {
			map[string]string{"alertname": "TargetDown", "namespace": "monitoring", "job": "node-exporter", "service": "node-exporter"},
			state.Entity{Cluster: "c", Namespace: "monitoring", Job: "node-exporter", Service: "node-exporter"},
		},
		"kube-state-metrics itself": {
			map[string]string{"alertname": "TargetDown", "namespace": "monitoring", "pod": "kube-state-metrics-6f8d9c7b5-qwert"},
			state.Entity{Cluster: "c", Namespace: "monitoring", Pool: "kube-state-metrics", Pod: "kube-state-metrics-6f8d9c7b5-qwert"},
		},
		"a gateway's upstream": {
			map[string]string{"alertname": "X", "envoy_cluster_name": "httproute/llm/chat/rule/0", "namespace": "envoy-gateway-system",
				"pod": "envoy-7c9d8f6b5-x2x4z", "instance": "10.0.0.9:19001", "job": "envoy"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "chat"},
		},
		"a sidecar beside a worker": {
			map[string]string{"alertname": "X", "reporter": "destination", "destination_workload": "vllm-llama", "namespace": "llm",
				"pod": "vllm-llama-7d9f8b6c5-abcde"},
			state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm-llama", Pod: "vllm-llama-7d9f8b6c5-abcde"},
		},
		"an address only": {
			map[string]string{"alertname": "TargetDown", "instance": "10.1.1.1:8000", "job": "vllm"},
			state.Entity{Cluster: "c", Instance: "10.1.1.1:8000", Job: "vllm"},
		},
	} {
		if diff := cmp.Diff(tt.want, classify.Classify(c, state.Alert{Labels: tt.labels}, "c").Entity); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	own := state.Alert{Labels: map[string]string{"alertname": "Ours", "name": "front", "namespace": "llm"},
		GeneratorURL: generator(`llm_d_epp_average_queue_size > 5`)}
	if e := classify.Classify(c, own, "c").Entity; e.Pool != "front" {
		t.Errorf("what an endpoint picker measures names its pool: %+v", e)
	}
	own.GeneratorURL = generator(`workqueue_depth > 5`)
	if e := classify.Classify(c, own, "c").Entity; e.Pool != "" {
		t.Errorf("elsewhere a name is anything's: %+v", e)
	}
}

// A rule that sums a gateway's requests by the gateway's pod is about the pools behind it. A rule
// about the gateway itself, or about a sidecar beside a worker, is about its pod.
func TestGatewayRequestsAreNotOfItsPod(t *testing.T) {
	c := rulestest.MustLoad(t)
	const ratio = `sum by (namespace, pod) (rate(envoy_cluster_upstream_rq_xx{envoy_response_code_class="5"}[5m])) > 1`
	for _, tt := range []struct{ expr, namespace, pod, want string }{
		{ratio, "envoy-gateway-system", "envoy-llm-eg-5d4f6b7c8d-x7k2q", ""},
		{ratio, "edge", "istio-ingressgateway-5d4f6b7c8d-x7k2q", ""},
		{ratio, "llm", "vllm-llama-5d4f6b7c8d-x7k2q", "vllm-llama-5d4f6b7c8d-x7k2q"},
		{`envoy_server_live == 0`, "edge", "envoy-5d4f6b7c8d-x7k2q", "envoy-5d4f6b7c8d-x7k2q"},
	} {
		s := classify.Classify(c, state.Alert{GeneratorURL: generator(tt.expr), Labels: map[string]string{
			"alertname": "Failures", "namespace": tt.namespace, "pod": tt.pod}}, "x")
		if asked := s.Hints[state.SeriesHint] != ""; s.Entity.Pod != tt.want || asked != (tt.want == "") {
			t.Errorf("%s of %s: about %+v, its series are asked for: %t", tt.expr, tt.pod, s.Entity, asked)
		}
	}
}

// Words in the name of a rule mean nothing if its expression is about another system.
func TestWordsYieldToForeignExpressions(t *testing.T) {
	c := rulestest.MustLoad(t)
	for name, expr := range map[string]string{
		"CeleryQueueBacklog": `celery_queue_size > 100`, "LowCacheHitRate": `rate(redis_keyspace_hits_total[5m]) < 1`,
		"CPUThrottlingHigh":               `rate(container_cpu_cfs_throttled_periods_total[5m]) > 0.25`,
		"PrometheusNotificationQueueFull": `predict_linear(prometheus_notifications_queue_length[5m], 1800) > 100`,
	} {
		s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": name}, GeneratorURL: generator(expr)}, "x")
		if s.Symptom != state.Unclassified {
			t.Errorf("%s: %s by %s", name, s.Symptom, s.By)
		}
	}
	if s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "QueueBacklog"}, GeneratorURL: generator(`llm:waiting > 100`)}, "x"); s.Symptom != "queue_buildup" {
		t.Errorf("words beside a recorded metric: %s", s.Symptom)
	}
}

func TestSeverityFromLabels(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, tt := range []struct {
		labels map[string]string
		want   state.Severity
	}{
		{map[string]string{"alertname": "LLMHighTTFT"}, state.Critical},
		{map[string]string{"alertname": "LLMHighTTFT", "severity": "info"}, state.Info},
		{map[string]string{"alertname": "X", "severity": "page"}, state.Critical},
		{map[string]string{"alertname": "X", "priority": "P1"}, state.Critical},
		{map[string]string{"alertname": "X", "severity": "gibberish"}, state.Warning},
		{map[string]string{"alertname": "X"}, state.Warning},
	} {
		if got := classify.Classify(c, state.Alert{Labels: tt.labels}, "").Severity; got != tt.want {
			t.Errorf("%v: %s, want %s", tt.labels, got, tt.want)
		}
	}
}

func TestXidComesFromLabelsOrText(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, a := range []state.Alert{
		{Labels: map[string]string{"alertname": "DCGMXidErrors", "err_code": "79"}},
		{Labels: map[string]string{"alertname": "DCGMXidErrors"},
			Annotations: map[string]string{"description": "GPU 3 reported XID error: 79 (fell off)"}},
	} {
		if got := classify.Classify(c, a, "").Hints["xid"]; got != "79" {
			t.Errorf("%v: xid %q", a, got)
		}
	}
}

// An expression that does not parse shows which metrics it reads, but not how: every rule on
// metrics can match it.
func TestUnparsableExpressionsMatchByMetricName(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, r := range c.MetricRules() {
		for _, metric := range r.Any {
			metric = strings.Trim(strings.ReplaceAll(metric, "*", "x"), "_")
			for _, expr := range []string{metric + `{status=~"5.."} by`, "sum(" + metric + " > 0.5", metric + ` by (pod) == 0`} {
				if s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "Ours"}, GeneratorURL: generator(expr)},
					""); c.SymptomTable()[s.Symptom].ID != s.Symptom {
					t.Errorf("%s: %+v", expr, s)
				}
			}
		}
	}
	const broken = `sum(rate(http_requests_total{status=~"5.."}[5m]) by (instance) > 1`
	if s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "Ours"}, GeneratorURL: generator(broken)},
		""); s.Symptom != state.Unclassified {
		t.Errorf("%s means %s: which status it asks for cannot be read", broken, s.Symptom)
	}
}

func FuzzClassify(f *testing.F) {
	c := rulestest.MustLoad(f)
	f.Add("Ours", "pod", "vllm-0", generator(`sum(rate(http_requests_total{status=~"5.."}[5m]) by (instance) > 1`), "")
	f.Add("LLMHighTTFT", "pod", "vllm-0", generator("up == 0"), "Xid 79")
	f.Add("", "model_name", "{{.Secrets}}\x00\n", "::::", "")
	f.Add("X", "server", "http://[::1", generator(strings.Repeat("(", 3000)), "xid xid xid")
	f.Add("DCGMXidErrors", "exported_pod", strings.Repeat("a-", 5000), generator("sum by (le) (rate(a_bucket[5m"), "é")
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, name, key, value, gen, summary string) {
		a := state.Alert{Labels: map[string]string{"alertname": name, key: value}, Annotations: map[string]string{"summary": summary},
			GeneratorURL: gen}
		s := classify.Classify(c, a, "c")
		if _, ok := c.SymptomTable()[s.Symptom]; !ok || s.Severity.Rank() == 0 || s.By == "" {
			t.Fatalf("not a sign: %+v", s)
		}
		if diff := cmp.Diff(s, classify.Classify(c, a, "c")); diff != "" {
			t.Fatalf("the same alert means two things: %s", diff)
		}
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		rulestest.Attach(in, s, name, now)
		correlate.Correlate(c, s, nil, []*state.Incident{in}, now)
		d := diagnose.Diagnose(c, in, nil, now)
		if strings.ContainsAny(d.Title, "\n\x00") {
			t.Fatalf("control characters in the title %q", d.Title)
		}
	})
}

// Articles write vLLM's metrics with an underscore; such rules have the same meaning.
func TestUnderscoreMatchesColonOfVLLM(t *testing.T) {
	c := rulestest.MustLoad(t)
	for expr, want := range map[string]state.Symptom{
		`vllm_num_requests_swapped > 0`:                                              "preemptions",
		`increase(vllm_num_preemptions_total[5m]) > 5`:                               "preemptions",
		`rate(vllm_request_success_total{finished_reason="length"}[5m]) > 1`:         "quality",
		`rate(vllm_prefix_cache_hits_total[5m]) / rate(vllm_prefix_queries[5m]) < 1`: "prefix_hit_low",
		`vllm_kv_cache_usage_perc > 0.95`:                                            "kv_pressure",
		`sum(sglang:num_decode_prealloc_queue_reqs) > 50`:                            "queue_buildup",
		// By Ray.
		`ray_vllm_kv_cache_usage_perc > 0.95`: "kv_pressure",
		`ray_vllm:num_requests_waiting > 50`:  "queue_buildup",
		`histogram_quantile(0.95, sum by (le) (rate(ray_vllm_time_to_first_token_seconds_bucket[5m]))) > 5`: "ttft_high",
	} {
		a := state.Alert{Labels: map[string]string{"alertname": "Own"}, GeneratorURL: generator(expr)}
		if s := classify.Classify(c, a, "test"); s.Symptom != want {
			t.Errorf("%s means %s, want %s", expr, s.Symptom, want)
		}
	}
}
