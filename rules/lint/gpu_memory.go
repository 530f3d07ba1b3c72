package lint

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/lint/threshold"
	"paramedic/rules/promql"
	"paramedic/state"
)

// framebuffers are DCGM's metrics of GPU memory, in MiB.
var framebuffers = []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_TOTAL",
	"DCGM_FI_DEV_FB_RESERVED"}

// tebibyte is more memory than any GPU has, in MiB.
const tebibyte = 1 << 20

// growing is an expression for a leak of GPU memory. Its second half excludes workers that were
// still loading three hours ago.
const growing = "deriv(DCGM_FI_DEV_FB_USED[3h]) > 0.02 and DCGM_FI_DEV_FB_USED offset 3h > 0.5 * DCGM_FI_DEV_FB_USED"

// A cache holds an engine's metric of KV cache usage, with a rule for a cache that is too small. A
// full cache alone is an efficient engine.
type cache struct {
	usage, rule string
	as          string // the same rule in deploy/prometheus, for every cluster
}

// caches are in the order of preference: the engine's own metric before that of Dynamo's worker.
var caches = []cache{
	vllmCache,
	{"vllm:gpu_cache_usage_perc", pressed("vllm:gpu_cache_usage_perc", `vllm:num_requests_waiting{server=""}`),
		"VLLMKVCachePressure of deploy/prometheus/vllm.yml"},
	{"sglang:token_usage", pressed("sglang:token_usage", "sglang:num_queue_reqs"), "SGLangTokenUsageHigh of deploy/prometheus/sglang.yml"},
	// TensorRT-LLM counts requests that wait for blocks as running.
	{"trtllm_kv_cache_utilization",
		pressed("trtllm_kv_cache_utilization",
			"trtllm_num_requests_waiting + trtllm_num_requests_running - trtllm_num_scheduled_requests"),
		"TRTLLMKVCachePressure of deploy/prometheus/trtllm.yml"},
	{"dynamo_component_gpu_cache_usage_percent",
		"max by (namespace) (dynamo_component_gpu_cache_usage_percent) > 0.95 and sum by (namespace) (dynamo_frontend_queued_requests) > 0",
		"DynamoKVCachePressure of deploy/prometheus/dynamo.yml"},
}

var vllmCache = cache{kvUsage, pressed(kvUsage, `vllm:num_requests_waiting{server=""}`),
	"VLLMKVCachePressure of deploy/prometheus/vllm.yml"}

func pressed(usage, waiting string) string {
	return fmt.Sprintf("max by (namespace, pod) (%s) > 0.95 and max by (namespace, pod) (%s) > 0", usage, waiting)
}

// watched returns the advice to watch a KV cache.
func (c cache) watched() string {
	return fmt.Sprintf("the KV cache together with the waiting requests, `%s` (%s)", c.rule, c.as)
}

// cacheOf returns the cache metric that this fleet exports; vLLM's if there is none.
func (l *linter) cacheOf() cache {
	for _, c := range caches {
		if l.have.Metrics[c.usage] {
			return c
		}
	}
	return vllmCache
}

// mebibytes reports thresholds in bytes for metrics in MiB.
func (l *linter) mebibytes(c threshold.Threshold, x *parser.BinaryExpr, path []parser.Node) {
	sel, ok := c.Of.(*parser.VectorSelector)
	if !ok || c.Limit < tebibyte || !slices.Contains(framebuffers, sel.Name) {
		return
	}
	if decided, always := c.Decided(0, tebibyte); decided {
		l.decided(always, fmt.Sprintf("%s is in MiB, and no GPU has %s MiB, the threshold", sel.Name, c.Text()),
			fmt.Sprintf("compare with %s, if you mean bytes", c.Written(math.Round(c.Limit/tebibyte))), x, path)
	}
}

// filled reports thresholds on used GPU memory if engines preallocate it: the value then does not
// depend on load.
func (l *linter) filled(u promql.MetricUse, uses []promql.MetricUse) {
	full := map[bool]string{true: "below", false: "above"}[u.Metric == "DCGM_FI_DEV_FB_FREE"]
	itself := slices.ContainsFunc(uses,
		func(v promql.MetricUse) bool { return v.Metric == u.Metric && v.Is != "" && v.Is != u.Is && !v.Under })
	growth := slices.ContainsFunc(uses,
		func(v promql.MetricUse) bool { return moves(v) && slices.Contains(framebuffers, v.Metric) })
	if u.Is != full || u.Under || growth || itself || !l.preallocates() {
		return
	}
	msg, severity := fmt.Sprintf("does not show load: the engines here allocate GPU memory for their KV cache at "+
		"the start and keep it, so %s does not change with load", u.Metric), state.Warning
	if l.rule.Holds && !slices.ContainsFunc(uses,
		func(v promql.MetricUse) bool { return v.Metric != u.Metric && !slices.Contains(framebuffers, v.Metric) }) {
		msg, severity = msg+"; the rule holds now, and as long as they run", state.Critical
	}
	l.report(severity, msg, fmt.Sprintf("watch %s; for a leak, `%s` (GPUMemoryGrows of deploy/prometheus/dcgm.yml)",
		l.cacheOf().watched(), growing))
}

// preallocates reports whether the fleet has an engine that allocates its GPU memory at the start.
func (l *linter) preallocates() bool {
	for name := range l.have.Metrics {
		if f := family(promql.EngineName(name)); f == "vllm:" || f == "sglang:" || f == "trtllm_" || f == "dynamo_" {
			return true
		}
	}
	return false
}
