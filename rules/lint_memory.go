package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/state"
)

// framebuffers are what DCGM says of a GPU's memory, in MiB.
var framebuffers = []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_RESERVED"}

// tebibyte is more memory in MiB than any GPU has.
const tebibyte = 1 << 20

// growing is a leak of GPU memory: the second half leaves out workers that were still loading three
// hours ago.
const growing = "deriv(DCGM_FI_DEV_FB_USED[3h]) > 0.02 and DCGM_FI_DEV_FB_USED offset 3h > 0.5 * DCGM_FI_DEV_FB_USED"

// A cache is what an engine exports of its KV cache, and a rule for one that is too small: full
// alone, it is an efficient engine.
type cache struct {
	usage, rule string
	as          string // the rule of deploy/prometheus that says it for every cluster
}

// caches are in the order in which they are suggested: the engine's own before what Dynamo's worker
// says of it.
var caches = []cache{
	vllmCache,
	{"vllm:gpu_cache_usage_perc", pressed("vllm:gpu_cache_usage_perc", `vllm:num_requests_waiting{server=""}`), "VLLMKVCachePressure of deploy/prometheus/vllm.yml"},
	{"sglang:token_usage", pressed("sglang:token_usage", "sglang:num_queue_reqs"), "SGLangTokenUsageHigh of deploy/prometheus/sglang.yml"},
	// Who waits for blocks is called running there.
	{"trtllm_kv_cache_utilization", pressed("trtllm_kv_cache_utilization", "trtllm_num_requests_waiting + trtllm_num_requests_running - trtllm_num_scheduled_requests"),
		"TRTLLMKVCachePressure of deploy/prometheus/trtllm.yml"},
	{"dynamo_component_gpu_cache_usage_percent", "max by (namespace) (dynamo_component_gpu_cache_usage_percent) > 0.95 and sum by (namespace) (dynamo_frontend_queued_requests) > 0",
		"DynamoKVCachePressure of deploy/prometheus/dynamo.yml"},
}

var vllmCache = cache{kvUsage, pressed(kvUsage, `vllm:num_requests_waiting{server=""}`), "VLLMKVCachePressure of deploy/prometheus/vllm.yml"}

func pressed(usage, waiting string) string {
	return fmt.Sprintf("max by (namespace, pod) (%s) > 0.95 and max by (namespace, pod) (%s) > 0", usage, waiting)
}

// watched says how to watch a KV cache.
func (c cache) watched() string {
	return fmt.Sprintf("the KV cache together with who waits for it, `%s` (%s)", c.rule, c.as)
}

// cacheOf is the cache that this fleet's engines export, vLLM's where none does.
func (l *linter) cacheOf() cache {
	for _, c := range caches {
		if l.have.Metrics[c.usage] {
			return c
		}
	}
	return vllmCache
}

// mebibytes finds thresholds in bytes for what is counted in MiB.
func (l *linter) mebibytes(c bound, x *parser.BinaryExpr, path []parser.Node) {
	sel, ok := c.of.(*parser.VectorSelector)
	if !ok || c.limit < tebibyte || !slices.Contains(framebuffers, sel.Name) {
		return
	}
	if decided, always := outside(c.op, c.limit, 0, tebibyte); decided {
		l.decided(always, fmt.Sprintf("%s is in MiB, and no GPU has the %s MiB of the threshold", sel.Name, c.own()),
			fmt.Sprintf("compare with %s, if bytes were meant", c.written(math.Round(c.limit/tebibyte))), x, path)
	}
}

// filled finds thresholds for the use of GPU memory, where engines take it at their start: what a
// rule then says has nothing to do with load.
func (l *linter) filled(u use, uses []use) {
	full := map[bool]string{true: "below", false: "above"}[u.metric == "DCGM_FI_DEV_FB_FREE"]
	itself := slices.ContainsFunc(uses, func(v use) bool { return v.metric == u.metric && v.is != "" && v.is != u.is && !v.under })
	growth := slices.ContainsFunc(uses, func(v use) bool { return v.moves() && slices.Contains(framebuffers, v.metric) })
	if u.is != full || u.under || growth || itself || !l.preallocates() {
		return
	}
	text, severity := fmt.Sprintf("tells nothing about load: the engines here take GPU memory for their KV cache at their start and keep it, whatever %s is then", u.metric), state.Warning
	if l.rule.Holds && !slices.ContainsFunc(uses, func(v use) bool { return v.metric != u.metric && !slices.Contains(framebuffers, v.metric) }) {
		text, severity = text+"; the rule holds now, and will as long as they run", state.Critical
	}
	l.say(severity, text, fmt.Sprintf("watch %s; for a leak, `%s` (GPUMemoryGrows of deploy/prometheus/dcgm.yml)", l.cacheOf().watched(), growing))
}

// preallocates says whether there is an engine whose GPU memory is full from the start.
func (l *linter) preallocates() bool {
	for name := range l.have.Metrics {
		if f := family(name); f == "vllm:" || f == "sglang:" || f == "trtllm_" || f == "dynamo_" {
			return true
		}
	}
	return false
}
