package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"

	"paramedic/lab/alerting"
	"paramedic/lab/engine"
)

// A rule is an alert rule.
type rule struct {
	name, expr string
	hold       time.Duration
	severity   string
}

// names maps a quantity to the engine's metric.
var names = map[engine.Kind]map[string]string{
	engine.VLLM: {"ttft": "vllm:time_to_first_token_seconds", "itl": "vllm:inter_token_latency_seconds",
		"waiting": "vllm:num_requests_waiting", "running": "vllm:num_requests_running", "kv": "vllm:kv_cache_usage_perc",
		"tokens": "vllm:generation_tokens_total", "done": "vllm:request_success_total"},
	engine.SGLang: {"ttft": "sglang:time_to_first_token_seconds", "itl": "sglang:inter_token_latency_seconds",
		"waiting": "sglang:num_queue_reqs", "running": "sglang:num_running_reqs", "kv": "sglang:token_usage",
		"tokens": "sglang:generation_tokens_total", "done": "sglang:num_requests_total"},
	engine.TRTLLM: {"ttft": "trtllm_time_to_first_token_seconds", "itl": "trtllm_time_per_output_token_seconds",
		"waiting": "trtllm_num_requests_waiting", "running": "trtllm_num_requests_running", "kv": "trtllm_kv_cache_utilization",
		"tokens": "trtllm_generation_tokens_total", "done": "trtllm_request_success_total"},
}

// rulesOf returns the alert rules of the convention.
func rulesOf(c convention, kind engine.Kind) []rule {
	if c["rules"] == "lab" {
		return ofLab(alerting.Rules(kind))
	}
	n, ok := names[kind]
	if !ok {
		n = names[engine.VLLM]
	}
	replace := strings.NewReplacer("TTFT", n["ttft"], "ITL", n["itl"], "WAITING", n["waiting"], "RUNNING", n["running"],
		"KV", n["kv"], "TOKENS", n["tokens"], "DONE", n["done"])
	rules := team
	if c["rules"] == "platform" {
		rules = slices.Concat(platformRules, team[:3])
	}
	out := slices.Clone(rules)
	for i := range out {
		out[i].expr = replace.Replace(out[i].expr)
	}
	return out
}

// nervousRules returns rules that fire on healthy fleets.
func nervousRules(kind engine.Kind) []rule { return ofLab(alerting.NervousRules(kind)) }

func ofLab(rules []alerting.Rule) []rule {
	var out []rule
	for _, r := range rules {
		out = append(out, rule{r.Name, r.Expr, r.For, r.Severity})
	}
	return out
}

// team are the rules of a team that named and sized them itself. The first three are those that
// even a small team has.
var team = []rule{
	{"ChatFirstTokenSlow", `histogram_quantile(0.9, sum by (le, model_name) (rate(TTFT_bucket[5m]))) > 4`, 3 * time.Minute, "critical"},
	{"ChatRequestsFail", `sum(rate(http_requests_total{status="5xx"}[5m])) / sum(rate(http_requests_total[5m])) > 0.03 or ` +
		`sum(rate(llm_d_epp_request_error_total[5m])) / sum(rate(llm_d_epp_request_total[5m])) > 0.03 or ` +
		`sum(rate(istio_requests_total{response_code=~"5.."}[5m])) / sum(rate(istio_requests_total[5m])) > 0.03 or ` +
		`sum by (exported_service) (rate(nginx_ingress_controller_requests{status=~"5.."}[5m])) / ` +
		`sum by (exported_service) (rate(nginx_ingress_controller_requests[5m])) > 0.03 or ` +
		`sum by (envoy_cluster_name) (rate(envoy_cluster_upstream_rq{envoy_response_code=~"5.."}[5m])) / ` +
		`sum by (envoy_cluster_name) (rate(envoy_cluster_upstream_rq[5m])) > 0.03`, 2 * time.Minute, "critical"},
	{"ChatWorkerDown", `up{job!~"kubelet|node-exporter|prometheus|dcgm-exporter|kube-state-metrics"} == 0`, 2 * time.Minute, "warning"},
	{"ChatTokensStutter", `histogram_quantile(0.9, sum by (le, model_name) (rate(ITL_bucket[5m]))) > 0.08`, 5 * time.Minute, "warning"},
	{"ChatQueueLong", `sum by (model_name) (WAITING) > 15`, 2 * time.Minute, "warning"},
	{"ChatCacheFull", `max by (model_name) (KV) > 0.92`, 3 * time.Minute, "warning"},
	{"ChatThroughputLow", `sum by (model_name) (rate(TOKENS[5m])) < 0.4 * sum by (model_name) (rate(TOKENS[30m] offset 30m))`,
		5 * time.Minute, "warning"},
	{"ChatHangUps", `sum by (model_name) (rate(DONE{finished_reason="abort"}[5m])) / sum by (model_name) (rate(DONE[5m])) > 0.3`,
		3 * time.Minute, "warning"},
	{"ChatStuck", `RUNNING > 0 and rate(TOKENS[5m]) == 0`, 2 * time.Minute, "critical"},
	{"CardHot", `DCGM_FI_DEV_GPU_TEMP > 86`, 2 * time.Minute, "warning"},
	{"CardError", `changes(DCGM_FI_DEV_XID_ERRORS[10m]) > 0 or DCGM_EXP_XID_ERRORS_COUNT > 0`, 0, "critical"},
	{"CardMemoryGrows", `predict_linear(DCGM_FI_DEV_FB_USED[15m], 3600) > DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE and ` +
		`changes(DCGM_FI_DEV_FB_USED[15m]) > 3`, 5 * time.Minute, "warning"},
	{"CardMemoryHigh", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.96`, 2 * time.Minute, "warning"},
	{"CardsIdle", `avg(DCGM_FI_DEV_GPU_UTIL) < 15`, 10 * time.Minute, "info"},
	{"ChatMemoryGrows", `container_memory_working_set_bytes{container!=""} > 0.9 * container_spec_memory_limit_bytes`, 2 * time.Minute,
		"warning"},
	{"ChatRestarts", `increase(kube_pod_container_status_restarts_total[15m]) > 0.5`, 0, "warning"},
	{"ChatPodsMissing", `kube_deployment_status_replicas_available < kube_deployment_spec_replicas`, 5 * time.Minute, "warning"},
	{"MachineGone", `kube_node_status_condition{condition="Ready",status="true"} == 0`, 2 * time.Minute, "critical"},
	{"ChatNoMetrics", `absent(KV)`, 3 * time.Minute, "warning"},
	{"ChatRefuses", `sum(rate(llm_refusals_total[10m])) / sum(rate(llm_requests_total[10m])) > 0.1`, 5 * time.Minute, "warning"},
}

// platformRules are rules of kubernetes-mixin and kube-prometheus, with shorter holds than theirs
// of 15 minutes, since a run is no longer than that.
var platformRules = []rule{
	{"TargetDown", `100 * (count by (cluster, job, namespace, service) (up == 0) / count by (cluster, job, namespace, service) (up)) > 10`,
		5 * time.Minute, "warning"},
	{"KubePodCrashLooping", `max_over_time(kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff"}[5m]) >= 1`,
		3 * time.Minute, "warning"},
	{"KubePodNotReady", `sum by (namespace, pod) (max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Unknown"})) > 0`,
		3 * time.Minute, "warning"},
	{"KubeDeploymentReplicasMismatch", `kube_deployment_spec_replicas > kube_deployment_status_replicas_available`, 5 * time.Minute,
		"warning"},
	{"KubeContainerWaiting", `sum by (namespace, pod, container) (kube_pod_container_status_waiting_reason) > 0`, 5 * time.Minute,
		"warning"},
	{"KubeNodeNotReady", `kube_node_status_condition{condition="Ready",status="true"} == 0`, 2 * time.Minute, "warning"},
	{"KubeNodeUnreachable", `kube_node_spec_unschedulable == 1`, 10 * time.Minute, "warning"},
}

// A ruler evaluates rules with Prometheus's engine.
type ruler struct {
	rules   []rule
	api     *api
	dress   func(labels map[string]string)
	pending map[string]time.Time
	firing  map[string]alerting.Alert
}

func newRuler(rules []rule, a *api, dress func(map[string]string)) *ruler {
	return &ruler{rules: rules, api: a, dress: dress, pending: map[string]time.Time{}, firing: map[string]alerting.Alert{}}
}

// evaluate returns the alerts that fire at a moment and those that have just resolved.
func (r *ruler) evaluate(ctx context.Context, now time.Time) ([]alerting.Alert, error) {
	held := map[string]bool{}
	for _, rule := range r.rules {
		vec, err := r.query(ctx, rule.expr, now)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", rule.name, err)
		}
		for _, s := range vec {
			labels := s.Metric.Map()
			delete(labels, "__name__")
			labels["alertname"], labels["severity"] = rule.name, rule.severity
			r.dress(labels)
			key := fmt.Sprint(labels)
			held[key] = true
			if _, known := r.pending[key]; !known {
				r.pending[key] = now
			}
			if _, fires := r.firing[key]; !fires && now.Sub(r.pending[key]) >= rule.hold {
				r.firing[key] = alerting.Alert{Labels: labels, Annotations: map[string]string{}, StartsAt: now,
					GeneratorURL: "http://prometheus:9090/graph?g0.expr=" + url.QueryEscape(rule.expr) + "&g0.tab=1"}
			}
		}
	}
	maps.DeleteFunc(r.pending, func(key string, _ time.Time) bool { return !held[key] })
	var out []alerting.Alert
	for _, key := range slices.Sorted(maps.Keys(r.firing)) {
		a := r.firing[key]
		if !held[key] {
			a.EndsAt = now
			delete(r.firing, key)
		}
		out = append(out, a)
	}
	return out, nil
}

func (r *ruler) query(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	q, err := r.api.engine.NewInstantQuery(ctx, r.api.store, nil, expr, at)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	defer q.Close()
	vec, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	return slices.Clone(vec), nil
}
