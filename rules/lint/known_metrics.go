package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"paramedic/rules/promql"
	"paramedic/state"
)

// families are the prefixes of metrics from inference engines, their routers and GPU exporters. The
// linter does not check rules about others.
var families = []string{"vllm:", "vllm_", "sglang:", "sglang_", "dynamo_", "trtllm_", "nv_trt_llm_", "llm_d_", "llm_",
	"inference_pool_", "inference_objective_", "inference_extension_", "inference_model_", "DCGM_"}

func family(metric string) string {
	for _, f := range families {
		if strings.HasPrefix(metric, f) {
			return f
		}
	}
	return ""
}

// A replacedMetric is a metric that no longer exists or never did, with the reason and a
// replacement.
type replacedMetric struct {
	use  string // a metric, without the suffixes of a histogram
	how  string // the text if no single metric replaces it
	why  string
	note string // a remark on the replacement
}

// instead returns the replacement for a name of the metric. A histogram's suffix is kept only if
// the replacement is a histogram.
func (f replacedMetric) instead(name string) string {
	if f.how != "" {
		return f.how
	}
	suffix, to := strings.TrimPrefix(name, promql.BaseName(name)), f.use
	switch histogram := isHistogram(f.use); {
	case histogram && suffix != "":
		to += suffix
	case histogram:
		to = quantileOf("0.95", f.use, "rate("+f.use+"_bucket[5m])")
	case suffix == "":
	case strings.HasSuffix(f.use, "_total"):
		to = "rate(" + f.use + "[5m])"
	default:
		return fmt.Sprintf("use `quantile_over_time(0.95, %s[5m])`: the metric is a gauge and has no buckets%s", f.use, f.note)
	}
	return "use `" + to + "`" + f.note
}

// isHistogram reports whether an engine's metric has buckets.
func isHistogram(metric string) bool {
	return knownBuckets[metric] != nil ||
		slices.Contains([]string{"vllm:request_prompt_tokens", "vllm:request_generation_tokens",
			"dynamo_component_router_kv_hit_rate", "dynamo_router_overhead_total_ms",
			"dynamo_frontend_output_sequence_tokens"}, metric)
}

const (
	renamedV1 = "vLLM V1 has renamed it"
	goneV1    = "only vLLM V0 had it: V1 recomputes preempted requests and never swaps"
	invented  = "no engine has ever exported it"
	hits      = "use `rate(vllm:prefix_cache_hits_total[5m]) / rate(vllm:prefix_cache_queries_total[5m])`"
	errs5xx   = "use `http_requests_total{status=\"5xx\"}`, from the server's edge"
	inSeconds = ", with thresholds in seconds"
	busy      = "use `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, and tokens per second"
	evicted   = "evictions show as fewer hits, `rate(vllm:prefix_cache_hits_total[5m]) / " +
		"rate(vllm:prefix_cache_queries_total[5m])`; SGLang counts them, " +
		"`rate(sglang:evicted_tokens_total[5m])`, and vLLM with --kv-cache-metrics counts a sample: " +
		"`rate(vllm:kv_block_idle_before_evict_seconds_count[5m])`"
	asked    = ", the requests to workers; no metric counts moves between host and GPU"
	produced = "use `rate(vllm:generation_tokens_total[5m])`"
	limits   = "use `rate(vllm:request_generation_tokens_sum[5m]) / rate(vllm:request_params_max_tokens_sum[5m])`, " +
		"or watch `vllm:request_success_total{finished_reason=\"length\"}`"
	preempted = "vllm:num_preemptions_total"
	kvUsage   = "vllm:kv_cache_usage_perc"
)

var watchGPU = "GPU memory is preallocated; watch " + vllmCache.watched()

// formers are indexed by names without histogram suffixes. The prefix vllm_ is looked up as vllm:.
var formers = map[string]replacedMetric{
	"vllm:gpu_cache_usage_perc":           {use: kvUsage, why: renamedV1},
	"vllm:gpu_prefix_cache_hits_total":    {use: "vllm:prefix_cache_hits_total", why: renamedV1},
	"vllm:gpu_prefix_cache_queries_total": {use: "vllm:prefix_cache_queries_total", why: renamedV1},
	"vllm:gpu_prefix_cache_hit_rate":      {how: hits, why: renamedV1},
	"vllm:time_per_output_token_seconds": {use: "vllm:inter_token_latency_seconds",
		why: "vLLM 0.12 hides it, and later versions have removed it"},
	"vllm:num_requests_swapped":                 {use: preempted, why: goneV1},
	"vllm:cpu_cache_usage_perc":                 {use: preempted, why: goneV1},
	"vllm:cpu_prefix_cache_hit_rate":            {how: hits, why: goneV1},
	"vllm:avg_prompt_throughput_toks_per_s":     {how: "use `rate(vllm:prompt_tokens_total[5m])`", why: "only vLLM V0 had it"},
	"vllm:avg_generation_throughput_toks_per_s": {how: produced, why: "only vLLM V0 had it"},
	"vllm:gpu_utilization":                      {how: busy, why: invented},
	"vllm:gpu_memory_usage_bytes":               {how: watchGPU, why: invented},
	"vllm:ttft_seconds":                         {use: "vllm:time_to_first_token_seconds", why: invented},
	"vllm:tbt_seconds":                          {use: "vllm:inter_token_latency_seconds", why: invented},
	"vllm:e2e_seconds":                          {use: "vllm:e2e_request_latency_seconds", why: invented},
	"vllm:output_tokens_total":                  {use: "vllm:generation_tokens_total", why: invented},
	"vllm:requests_completed_total": {use: "vllm:request_success_total", why: invented,
		note: "; failed requests are in `http_requests_total{status=\"5xx\"}`"},
	"vllm:queue_depth":              {use: "vllm:num_requests_waiting", why: invented},
	"vllm:kv_cache_utilization":     {use: kvUsage, why: invented},
	"vllm:kv_cache_evictions_total": {use: preempted, why: "vLLM counts no evictions"},
	"vllm:decode_batch_size": {use: "vllm:num_requests_running", why: "vLLM exports no batch size",
		note: "; the tokens of each step are in `vllm:iteration_tokens_total_bucket`"},
	"vllm:prefix_cache_hit_rate": {how: hits, why: invented},

	"llm_ttft_seconds":             {use: "vllm:time_to_first_token_seconds", why: invented},
	"llm_tbt_seconds":              {use: "vllm:inter_token_latency_seconds", why: invented},
	"llm_itl_seconds":              {use: "vllm:inter_token_latency_seconds", why: invented},
	"llm_request_duration_seconds": {use: "vllm:e2e_request_latency_seconds", why: invented},
	"llm_e2e_latency_seconds":      {use: "vllm:e2e_request_latency_seconds", why: invented},
	"llm_tokens_per_second":        {how: produced, why: invented},
	"llm_error_total":              {how: errs5xx, why: invented},
	"llm_requests_total":           {use: "http_requests_total", why: invented},
	"llm_gpu_utilization":          {how: busy, why: invented},
	"llm_gpu_memory_used_bytes":    {how: watchGPU, why: invented},
	"llm_kv_cache_utilization":     {use: kvUsage, why: invented},
	"llm_queue_depth":              {use: "vllm:num_requests_waiting", why: invented},
	"llm_batch_size":               {use: "vllm:num_requests_running", why: invented},
	"llm_preemption_total":         {use: preempted, why: invented},
	"llm_input_tokens":             {use: "vllm:request_prompt_tokens", why: invented},
	"llm_output_tokens":            {use: "vllm:request_generation_tokens", why: invented},
	"llm_output_length_ratio":      {how: limits, why: "no engine exports it: only a client can measure it on its own answers"},

	"dynamo_ttft_milliseconds": {use: "dynamo_frontend_time_to_first_token_seconds", why: invented, note: inSeconds},
	"dynamo_tbt_milliseconds":  {use: "dynamo_frontend_inter_token_latency_seconds", why: invented, note: inSeconds},
	"dynamo_prefill_milliseconds": {use: "vllm:request_prefill_time_seconds", why: invented,
		note: ", or its like of another engine" + inSeconds},
	"dynamo_queue_wait_milliseconds": {use: "vllm:request_queue_time_seconds", why: invented,
		note: ", or its like of another engine" + inSeconds},
	"dynamo_routing_milliseconds": {use: "dynamo_router_overhead_total_ms", why: invented,
		note: ", from the router with prefix cache lookup"},
	"dynamo_request_duration_milliseconds": {use: "dynamo_frontend_request_duration_seconds", why: invented, note: inSeconds},
	"dynamo_tokens_generated_total":        {use: "dynamo_frontend_output_tokens_total", why: invented},
	"dynamo_tokens_prefilled_total":        {use: "vllm:prompt_tokens_total", why: invented},
	"dynamo_requests_completed_total":      {use: "dynamo_frontend_requests_total", why: invented},
	"dynamo_output_tokens_per_request":     {use: "dynamo_frontend_output_sequence_tokens", why: invented},
	"dynamo_scheduler_queue_depth":         {use: "dynamo_frontend_router_queue_pending_requests", why: invented},
	"dynamo_current_batch_size":            {use: "dynamo_frontend_active_requests", why: invented},
	"dynamo_kv_cache_utilization":          {use: "dynamo_component_gpu_cache_usage_percent", why: invented},
	"dynamo_gpu_memory_used_bytes":         {how: watchGPU, why: invented},
	"dynamo_prefix_cache_hit_rate":         {use: "dynamo_component_router_kv_hit_rate", why: invented},
	"dynamo_prefix_cache_evictions_total":  {how: evicted, why: invented},
	"dynamo_request_errors_total":          {use: "dynamo_component_errors_total", why: invented},
	"dynamo_preemptions_total":             {use: preempted, why: invented},
	"dynamo_oom_events_total":              {use: "container_oom_events_total", why: invented},
	"dynamo_active_lora_adapters": {
		how: "vLLM exports the running adapters in a label: `vllm:lora_requests_info{running_lora_adapters!=\"\"}`", why: invented},
	"dynamo_adapter_cache_loads_total": {how: "use `rate(dynamo_component_requests_total{dynamo_endpoint=\"load_lora\"}[5m])`" + asked,
		why: invented},
	"dynamo_adapter_cache_evictions_total": {how: "use `rate(dynamo_component_requests_total{dynamo_endpoint=\"unload_lora\"}[5m])`" +
		asked, why: invented},
}

// formerly looks up a metric that no longer exists.
func formerly(name string) (replacedMetric, bool) {
	name = promql.VLLMName(name)
	if f, ok := formers[name]; ok {
		return f, true
	}
	f, ok := formers[promql.BaseName(name)]
	return f, ok
}

// The default buckets of engines; those of vLLM are fixed.
var (
	ttftBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
		160, 640, 2560}
	tokenBuckets   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
		7680}

	// knownBuckets are the edges of each histogram, of the newest releases first.
	knownBuckets = map[string][][]float64{
		"vllm:time_to_first_token_seconds":           {ttftBuckets},
		"vllm:inter_token_latency_seconds":           {tokenBuckets},
		"vllm:time_per_output_token_seconds":         {tokenBuckets},
		"vllm:request_time_per_output_token_seconds": {tokenBuckets},
		"vllm:e2e_request_latency_seconds":           {requestBuckets},
		"vllm:request_queue_time_seconds":            {requestBuckets},
		"vllm:request_prefill_time_seconds":          {requestBuckets},
		"vllm:request_decode_time_seconds":           {requestBuckets},
		"vllm:request_inference_time_seconds":        {requestBuckets},

		"sglang:time_to_first_token_seconds": {{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}},
		"sglang:inter_token_latency_seconds": {
			{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}},
		"sglang:e2e_request_latency_seconds": {
			{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}},
		"trtllm_time_to_first_token_seconds":   {ttftBuckets},
		"trtllm_time_per_output_token_seconds": {tokenBuckets},
		"trtllm_e2e_request_latency_seconds":   {requestBuckets},
		"trtllm_request_queue_time_seconds":    {requestBuckets},

		// Dynamo changed the buckets between tokens in September 2026 (pull request 14839), and
		// those of requests in April (8087).
		"dynamo_frontend_time_to_first_token_seconds": {
			{.0022, .0047, .01, .022, .047, .1, .22, .47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480}},
		"dynamo_frontend_inter_token_latency_seconds": {
			{.0018, .0033, .0059, .011, .02, .035, .064, .12, .21, .38, .69, 1.2, 2.3, 4.1, 7.4, 13, 24, 44, 80},
			{.0019, .0035, .0067, .013, .024, .045, .084, .16, .3, .56, 1.1, 2},
		},
		"dynamo_frontend_request_duration_seconds": {{2, 4, 8, 16, 32, 64, 130, 260, 510}, {1.9, 3.4, 6.3, 12, 22, 40, 75, 140, 260}},

		// llm-d's router has these names since 0.9.
		"llm_d_epp_request_ttft_seconds": {
			{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120}},
		"llm_d_epp_request_duration_seconds": {
			{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120,
				180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}},
		"llm_d_epp_request_streaming_itl_seconds": {{.001, .005, .01, .02, .04, .06, .08, .1, .15, .2, .3, .5, .75, 1, 2}},
		"llm_d_epp_flow_control_request_queue_duration_seconds": {
			{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}},
	}
)

// knownTops are the largest values of gauges that begin at zero: 1 for ratios, even if the name
// ends in percent, and 100 for percentages.
var knownTops = map[string]float64{
	"vllm:kv_cache_usage_perc": 1, "vllm:gpu_cache_usage_perc": 1, "vllm:cpu_cache_usage_perc": 1, "vllm:gpu_prefix_cache_hit_rate": 1,
	"sglang:token_usage": 1, "sglang:swa_token_usage": 1, "sglang:mamba_usage": 1, "sglang:cache_hit_rate": 1,
	"dynamo_component_gpu_cache_usage_percent": 1, "dynamo_component_kvstats_gpu_cache_usage_percent": 1,
	"trtllm_kv_cache_utilization": 1, "trtllm_kv_cache_hit_rate": 1,
	"llm_d_epp_average_kv_cache_utilization": 1, "inference_pool_average_kv_cache_utilization": 1,

	"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1, "DCGM_FI_PROF_SM_ACTIVE": 1, "DCGM_FI_PROF_SM_OCCUPANCY": 1, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1,
	"DCGM_FI_PROF_DRAM_ACTIVE": 1,
	"DCGM_FI_DEV_GPU_UTIL":     100, "DCGM_FI_DEV_MEM_COPY_UTIL": 100, "DCGM_FI_DEV_ENC_UTIL": 100, "DCGM_FI_DEV_DEC_UTIL": 100,
}

// wholes maps counters of a part to the counter of the whole.
var wholes = map[string]string{
	"vllm:prefix_cache_hits_total":          "vllm:prefix_cache_queries_total",
	"vllm:gpu_prefix_cache_hits_total":      "vllm:gpu_prefix_cache_queries_total",
	"vllm:external_prefix_cache_hits_total": "vllm:external_prefix_cache_queries_total",
}

const xidErrors = "DCGM_FI_DEV_XID_ERRORS"

var (
	hangWords = regexp.MustCompile(`(?i)hang|hung|stall|stuck|frozen|freeze|wedged`)
	moving    = []string{"changes", "delta", "idelta", "increase", "rate", "irate", "deriv", "predict_linear"}
	loads     = regexp.MustCompile(`requests|_reqs$|queue`)
	narrowed  = regexp.MustCompile(`(^|,)(server|job|pod|instance|service|container|endpoint)=`)
)

// habits reports wrong uses of metrics that exist.
func (l *linter) habits(uses []promql.MetricUse) {
	l.totals(uses)
	reads := func(part string) bool {
		return slices.ContainsFunc(uses, func(u promql.MetricUse) bool { return strings.Contains(u.Metric, part) })
	}
	for _, u := range uses {
		l.behind = l.from[u.Sel]
		switch u.Metric {
		case "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_FREE":
			l.filled(u, uses)
		case xidErrors:
			anew := slices.ContainsFunc(uses, func(v promql.MetricUse) bool { return v.Metric == u.Metric && moves(v) })
			if u.Is == "above" && !anew && !l.before(u.Metric) {
				l.report(state.Critical, "never resolves: DCGM_FI_DEV_XID_ERRORS keeps the last code until the driver is "+
					"reloaded",
					"use `"+newXid+"`, or `DCGM_EXP_XID_ERRORS_COUNT > 0` if the exporter is new: it puts the code into labels, "+
						"and each code is "+
						"a series")
			}
		case "DCGM_FI_DEV_GPU_UTIL":
			if (u.Is == "below" || u.Is == "zero") &&
				(hangWords.MatchString(l.rule.Name) || reads("_running") || reads("_waiting")) {
				l.report(state.Warning, "misses hangs: DCGM_FI_DEV_GPU_UTIL is 100 % while a collective operation hangs",
					fmt.Sprintf("look for running requests without new tokens: `%s`", l.stall()))
			}
		case "vllm:generation_tokens_total", "sglang:generation_tokens_total", "trtllm_generation_tokens_total",
			"dynamo_frontend_output_tokens_total":
			if (u.Is == "below" || u.Is == "zero") &&
				!slices.ContainsFunc(uses, func(v promql.MetricUse) bool { return loads.MatchString(v.Metric) }) {
				l.report(state.Warning, fmt.Sprintf(
					"fires when traffic falls: fewer of %s is no fault if users send less", u.Metric),
					"add a condition for load with and: as many requests running as before, or waiting requests")
			}
		case ended:
			l.reasonError(u.Sel)
		case "vllm:num_requests_running", "vllm:num_requests_waiting":
			if l.have.Router && !narrowed.MatchString(u.Labels) {
				l.report(state.Warning, fmt.Sprintf("counts twice: a router here exports %s again, with the label server",
					u.Metric), fmt.Sprintf("select only the engines' series: `%s{server=\"\"}`", u.Metric))
			}
		}
	}
}

// totals reports counters that are compared directly. They count from the start of the process.
func (l *linter) totals(uses []promql.MetricUse) {
	for _, u := range uses {
		l.behind = l.from[u.Sel]
		counted := slices.ContainsFunc([]string{"_total", "_bucket", "_count", "_sum"},
			func(end string) bool { return strings.HasSuffix(u.Metric, end) })
		number := slices.ContainsFunc(u.Funcs, func(fn string) bool { return slices.Contains(countless, fn) })
		if u.Is == "above" && counted && family(u.Metric) != "" && !moves(u) && !number && !l.before(u.Metric) {
			l.report(state.Warning, fmt.Sprintf(
				"covers the whole life of the process: %s is a counter and only grows", u.Metric),
				fmt.Sprintf("compare its growth: `rate(%s[5m])`", u.Metric))
			return
		}
	}
}

// countless are the functions whose result does not depend on the counter's value.
var countless = []string{"absent", "absent_over_time", "count", "count_over_time", "count_values", "group",
	"present_over_time", "resets", "timestamp"}

// moves reports whether the use is about changes of the metric.
func moves(u promql.MetricUse) bool {
	return slices.ContainsFunc(u.Funcs, func(fn string) bool { return slices.Contains(moving, fn) })
}

// stall returns an expression for an engine of this fleet that runs requests and produces no
// tokens.
func (l *linter) stall() string {
	const expr = "rate(%s[5m]) == 0 and on (namespace, pod) %s > 0"
	for _, engine := range [][2]string{{"sglang:generation_tokens_total", "sglang:num_running_reqs"},
		{"trtllm_generation_tokens_total", "trtllm_num_requests_running"}} {
		if l.have.Metrics[engine[0]] {
			return fmt.Sprintf(expr, engine[0], engine[1])
		}
	}
	return fmt.Sprintf(expr, "vllm:generation_tokens_total", `vllm:num_requests_running{server=""}`) +
		" unless on (namespace, pod) rate(vllm:prompt_tokens_total[5m]) > 0"
}

// before reports whether the expression compares a metric with its own past.
func (l *linter) before(metric string) bool {
	seen := map[time.Duration]bool{}
	for _, sel := range promql.SelectorsOf(l.expr) {
		if sel.Name == metric {
			seen[sel.OriginalOffset] = true
		}
	}
	return len(seen) > 1
}
