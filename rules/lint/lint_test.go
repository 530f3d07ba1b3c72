package lint

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/promql"
	"paramedic/state"
)

// v1Fleet returns a fleet of vLLM V1 workers on GPUs, without Dynamo or SGLang.
func v1Fleet() Exported {
	have := Exported{Metrics: map[string]bool{}}
	for _, name := range strings.Fields(`up vllm:kv_cache_usage_perc vllm:num_requests_running vllm:num_requests_waiting vllm:num_preemptions_total
		vllm:time_to_first_token_seconds_bucket vllm:inter_token_latency_seconds_bucket vllm:e2e_request_latency_seconds_bucket
		vllm:time_to_first_token_seconds_count vllm:prefix_cache_hits_total vllm:prefix_cache_queries_total vllm:request_success_total
		vllm:generation_tokens_total DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_GPU_UTIL`) {
		have.Metrics[name] = true
	}
	return have
}

// faulty are rules with the expected finding in such a fleet.
var faulty = []struct {
	name, expr string
	lasts      time.Duration
	severity   state.Severity
	text, fix  string
}{
	{"renamed", `vllm:gpu_cache_usage_perc > 0.9`, 0, state.Critical, "never fires: vllm:gpu_cache_usage_perc",
		"vllm:kv_cache_usage_perc"},
	{"renamed histogram", `histogram_quantile(0.99, sum by (le) (rate(vllm:time_per_output_token_seconds_bucket[5m]))) > 0.2`, 0,
		state.Critical, "never fires", "use `vllm:inter_token_latency_seconds_bucket`"},
	{"gone with V0", `vllm:num_requests_swapped > 0`, 0, state.Critical, "never swaps", "vllm:num_preemptions_total"},
	{"gone with V0, too", `vllm:cpu_cache_usage_perc > 0.5`, 0, state.Critical, "never fires", "vllm:num_preemptions_total"},
	{"underscore", `vllm_num_requests_waiting > 20`, 0, state.Critical, "but vllm:num_requests_waiting is",
		"use `vllm:num_requests_waiting`"},
	{"underscore of a histogram", `vllm_time_to_first_token_seconds > 5`, 0, state.Critical, "but vllm:time_to_first_token_seconds is",
		"rate(vllm:time_to_first_token_seconds_bucket[5m])"},
	{"a caller's own", `llm_output_length_ratio > 0.95`, 0, state.Critical, "only a client can measure", "request_params_max_tokens_sum"},
	{"invented", `llm_queue_depth > 200`, 0, state.Critical, "no engine has ever exported it", "vllm:num_requests_waiting"},
	{"invented in milliseconds", `histogram_quantile(0.99, sum by (le) (rate(dynamo_ttft_milliseconds_bucket[2m]))) > 500`, 0,
		state.Critical, "no engine has ever", "use `dynamo_frontend_time_to_first_token_seconds_bucket`, with thresholds in seconds"},
	{"not exported", `rate(vllm:request_failure_total[5m]) > 0`, 0, state.Warning, "other vllm:* metrics are (or it has counted nothing",
		"/metrics"},
	{"no such engine", `sglang:num_queue_reqs > 20`, 0, state.Info, "there are no sglang:* metrics here", "scrape"},
	{"absent for good", `absent(vllm:gpu_cache_usage_perc)`, 0, state.Critical, "always fires", "vllm:kv_cache_usage_perc"},
	{"no aggregation", `histogram_quantile(0.95, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 5`, 0, state.Warning,
		"every single series", "sum by (le, model_name)"},
	{"le is lost", `histogram_quantile(0.95, sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, 0,
		state.Critical, "the aggregation removes the label le", "keep le"},
	{"le is taken away", `histogram_quantile(0.95, sum without (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, 0,
		state.Critical, "the aggregation removes the label le", "keep le"},
	{"between buckets", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 3`, 0, state.Warning,
		"between the buckets 2.5 and 5", "2.5 or 5"},
	{"no such bucket", `rate(vllm:time_to_first_token_seconds_bucket{le="2.0"}[5m]) < 1`, 0, state.Critical, `no bucket le="2.0"`,
		`le="1" or le="2.5"`},
	{"preallocated", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95`, 0, state.Warning,
		"does not show load: the engines here allocate GPU memory",
		"max by (namespace, pod) (vllm:num_requests_waiting{server=\"\"}) > 0` (VLLMKVCachePressure of deploy/prometheus/vllm.yml); for " +
			"a leak, `deriv(DCGM_FI_DEV_FB_USED[3h]) > 0.02 and "},
	{"preallocated, by what is left", `DCGM_FI_DEV_FB_FREE < 2048`, 0, state.Warning, "does not show load", "KV cache"},
	{"bytes of MiB that are left", `DCGM_FI_DEV_FB_FREE > 2e9`, 0, state.Critical,
		"never fires: DCGM_FI_DEV_FB_FREE is in MiB, and no GPU has 2000000000 MiB, the threshold",
		"compare with 1907, if you mean bytes"},
	{"bytes of MiB, always", `DCGM_FI_DEV_FB_USED < 10 * 2^30`, 0, state.Critical, "always fires: DCGM_FI_DEV_FB_USED is in MiB",
		"compare with 10240"},
	{"sticky", `DCGM_FI_DEV_XID_ERRORS > 0`, 0, state.Critical, "never resolves", "changes("},
	{"hang by utilisation", `DCGM_FI_DEV_GPU_UTIL < 5 and on (pod) vllm:num_requests_running > 0`, 0, state.Warning, "misses hangs",
		"generation_tokens_total"},
	{"one event and a long wait", `increase(vllm:num_preemptions_total[5m]) > 0`, 10 * time.Minute, state.Critical,
		"after for: 10m, the event has left the window of 5m", "longer than for"},
	{"a histogram's name", `vllm:time_to_first_token_seconds > 5`, 0, state.Critical, "is a histogram",
		"vllm:time_to_first_token_seconds_bucket"},
	{"a counter as it is", `vllm:num_preemptions_total > 0`, 0, state.Warning, "is a counter and only grows",
		"rate(vllm:num_preemptions_total[5m])"},
	{"buckets as they are", `histogram_quantile(0.95, sum by (le) (vllm:time_to_first_token_seconds_bucket)) > 5`, 0, state.Warning,
		"covers the whole life", "rate("},
	{"a share of counters", `sum(vllm:request_success_total{finished_reason="length"}) / sum(vllm:request_success_total) > 0.2`, 0,
		state.Warning, "covers the whole life", "rate("},
	{"a drop without its traffic",
		`sum(rate(vllm:generation_tokens_total[5m])) < 0.5 * sum(rate(vllm:generation_tokens_total[30m] offset 1h))`, 0, state.Warning,
		"when traffic falls", "requests running"},
	{"a level without its traffic", `sum(rate(vllm:generation_tokens_total[5m])) < 100`, 0, state.Warning, "when traffic falls",
		"waiting requests"},
	{"one event by a subquery", `changes((max by (UUID) (DCGM_FI_DEV_XID_ERRORS))[5m:15s]) >= 1`, 5 * time.Minute, state.Critical,
		"left the window of 5m", "longer than for"},
	{"one name in braces", `{__name__="vllm:gpu_cache_usage_perc"} > 0.9`, 0, state.Critical, "never fires: vllm:gpu_cache_usage_perc",
		"use `vllm:kv_cache_usage_perc`"},
	{"a name in braces and quotes", `{"vllm:gpu_cache_usage_perc"} > 0.9`, 0, state.Critical, "never fires: vllm:gpu_cache_usage_perc",
		"use `vllm:kv_cache_usage_perc`"},
	{"names that fit none", `{__name__=~"vllm:.*_swapped.*"} > 0`, 0, state.Warning, "no metric here has a name like vllm:.*_swapped.*",
		"/metrics"},
	{"names that fit one", `{__name__=~"DCGM_FI_DEV_XID.*"} > 0`, 0, state.Critical, "never resolves", "changes("},
	{"buckets by a pattern", `histogram_quantile(0.95, sum by (le) (rate({__name__=~"vllm:time_to_first_token.*_bucket"}[5m]))) > 3`, 0,
		state.Warning, "between the buckets 2.5 and 5", "2.5 or 5"},
	{"a number on the left", `3 < histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))`, 0,
		state.Warning, "between the buckets 2.5 and 5", "2.5 or 5"},
	{"in milliseconds", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) * 1000 > 3000`, 0,
		state.Warning,
		"the threshold 3000 (that is 3) lies between the buckets 2.5 and 5", "2500 or 5000"},
	{"by a thousand", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) / 1000 > 0.003`, 0,
		state.Warning, "the threshold 0.003 (that is 3)", "0.0025 or 0.005"},
	{"milliseconds of a histogram in seconds",
		`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 500`, 0, state.Warning,
		"between the buckets 160 and 640", "compare with 0.5 if you mean milliseconds"},
	{
		"chosen and spread out", `max_over_time(max(histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))))[10m:1m]) > 3`, 0, state.Warning, "between the buckets 2.5 and 5", "2.5 or 5"},
	{"computed", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2 + 1`, 0, state.Warning,
		"the threshold 3 lies between", "2.5 or 5"},
	{"at the largest bucket", `histogram_quantile(0.95, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) > 80`, 0,
		state.Critical, "never fires: a quantile of vllm:inter_token_latency_seconds_bucket is never above its largest bucket, 80",
		"less than 80"},
	{
		"beyond the largest bucket", `histogram_quantile(0.95, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) * 1e3 >= 100e3`, 0, state.Critical, "never fires", "less than 80000"},
	{"below what is never above", `histogram_quantile(0.95, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) < 100`, 0,
		state.Critical, "always fires", "less than 80"},
	{"a quantile in per cent", `histogram_quantile(95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, 0,
		state.Critical, "the quantile 95 is not between 0 and 1", "write 0.95"},
	{
		"le is lost on the way", `histogram_quantile(0.95, sum by (le) (sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))) > 5`, 0, state.Critical, "the aggregation removes the label le", "keep le"},
	{"a ratio in per cent", `vllm:kv_cache_usage_perc > 90`, 0, state.Critical,
		"never fires: vllm:kv_cache_usage_perc is from 0 to 1, and the threshold is 90", "compare with 0.9"},
	{"a ratio above 1", `max by (pod) (vllm:kv_cache_usage_perc) > 1`, 0, state.Critical, "never fires", "between 0 and 1"},
	{"a ratio scaled too far", `100 * avg_over_time(vllm:kv_cache_usage_perc[5m]) > 9000`, 0, state.Critical,
		"the threshold is 9000 (that is 90)", "compare with 90"},
	{"a mean ratio", `sum(vllm:kv_cache_usage_perc) / count(vllm:kv_cache_usage_perc) > 90`, 0, state.Critical, "is from 0 to 1",
		"compare with 0.9"},
	{"a ratio that is always below", `vllm:kv_cache_usage_perc < 95`, 0, state.Critical, "always fires", "compare with 0.95"},
	{"a ratio that is always there", `vllm:kv_cache_usage_perc >= 0`, 0, state.Critical, "always fires", "between 0 and 1"},
	{"never, and so for the rest", `vllm:kv_cache_usage_perc > 90 and vllm:num_requests_waiting > 0`, 0, state.Critical, "never fires",
		"compare with 0.9"},
	{"one way of two", `vllm:kv_cache_usage_perc > 90 or vllm:num_requests_waiting > 20`, 0, state.Warning, "one part never holds",
		"compare with 0.9"},
	{"nothing excluded", `vllm:num_requests_waiting > 20 unless on (pod) vllm:kv_cache_usage_perc > 90`, 0, state.Warning,
		"one part never holds", "compare with 0.9"},
	{"one condition of two", `vllm:kv_cache_usage_perc < 95 and vllm:num_requests_waiting > 20`, 0, state.Warning, "one part always holds",
		"compare with 0.95"},
	{
		"a part above its whole", `100 * rate(vllm:prefix_cache_hits_total[5m]) / clamp_min(rate(vllm:prefix_cache_queries_total[5m]), 1) < 3000`, 0, state.Critical, "always fires: a share is from 0 to 1, and the threshold is 3000 (that is 30)", "compare with 30"},
	{
		"one reason of all", `sum(rate(vllm:request_success_total{finished_reason="abort"}[5m])) / sum(rate(vllm:request_success_total[5m])) > 5`, 0, state.Critical, "a share", "compare with 0.05"},
	{
		"what is not in time", `1 - sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m])) / sum(rate(vllm:time_to_first_token_seconds_count[5m])) > 5`, 0, state.Critical, "a share", "compare with"},
	{"a percentage as a ratio", `DCGM_FI_DEV_GPU_UTIL > 0.9`, 0, state.Warning, "less than 1 %", "compare with 90"},
	{"a percentage above 100", `avg(DCGM_FI_DEV_GPU_UTIL) > 100`, 0, state.Critical, "never fires", "between 0 and 100"},
	{"a gauge that never was a histogram", `histogram_quantile(0.5, sum by (le) (rate(vllm_decode_batch_size_bucket[5m]))) < 8`, 0,
		state.Critical, "vLLM exports no batch size", "use `quantile_over_time(0.95, vllm:num_requests_running[5m])`"},
	{"a histogram where a gauge was thought", `vllm_ttft_seconds > 5`, 0, state.Critical, "no engine has ever exported it",
		"`histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))`"},
	{"two quantiles by series", `histogram_quantile(0.9, rate(vllm:time_to_first_token_seconds_bucket{pod="a"}[10m])) > 5`, 0,
		state.Warning, "every single series",
		"`histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket{pod=\"a\"}[10m])))`"},
	{"no threshold", `DCGM_FI_DEV_XID_ERRORS`, 0, state.Critical,
		"always fires: there is no comparison, so the rule fires for every value, also for 0; DCGM_FI_DEV_XID_ERRORS always has a value",
		"`changes((max by (UUID) (DCGM_FI_DEV_XID_ERRORS))[15m:15s]) > 0`"},
	{"no threshold for one GPU", `DCGM_FI_DEV_XID_ERRORS{gpu="0"}`, 0, state.Critical, "always fires: there is no comparison",
		"look for a new code"},
	{"no threshold of changes", `changes(DCGM_FI_DEV_XID_ERRORS[15m])`, 0, state.Critical, "always fires: there is no comparison",
		"look for a new code"},
	{"no threshold of a ratio", `100 * max by (pod) (vllm:kv_cache_usage_perc)`, 0, state.Critical,
		"vllm:kv_cache_usage_perc always has a value",
		"watch the KV cache together with the waiting requests, `max by (namespace, pod) (vllm:kv_cache_usage_perc) > 0.95 and "},
	{"no threshold of a sum", `sum(vllm:num_requests_running + vllm:num_requests_waiting)`, 0, state.Critical,
		"always fires: there is no comparison", "value at which it is a problem"},
	{"one way without a threshold", `vllm:kv_cache_usage_perc > 0.9 or vllm:num_requests_waiting`, 0, state.Critical,
		"vllm:num_requests_waiting always has a value", "value at which it is a problem"},
	{"errors by reason", `sum(rate(vllm:request_success_total{finished_reason="error"}[5m])) > 0.1`, 0, state.Warning,
		"misses errors: vllm:request_success_total counts only requests that the engine finished", `http_requests_total{handler=~"/v1/.*",status=~"5.*"}`},
	{"errors by reason, without a threshold", `rate(vllm:request_success_total{finished_reason="error"}[5m])`, 0, state.Warning,
		"misses errors", "http_requests_total"},
	{
		"errors among reasons", `sum(rate(vllm:request_success_total{finished_reason=~"abort|error"}[5m])) / sum(rate(vllm:request_success_total[5m])) > 0.05`, 0, state.Warning, "misses errors", "http_requests_total"},
	{"what is no success", `1 - rate(vllm:request_success_total[5m]) / rate(http_requests_total[5m]) > 0.05`, 0, state.Warning,
		"is not an error rate: vllm:request_success_total counts all requests that the engine finished, also cancelled ones",
		"count the answers of the API server"},
	{"what is no success, without a threshold", `1 - rate(vllm:request_success_total[5m]) / rate(http_requests_total[5m])`, 0,
		state.Warning, "is not an error rate", "http_requests_total"},
	{"what is no success, in per cent",
		`100 * (1 - sum(rate(vllm:request_success_total{finished_reason=~"stop|length"}[5m])) / sum(rate(vllm:request_success_total[5m]))) > 5`, 0, state.Warning, "is not an error rate", "http_requests_total"},
	{"too little success", `sum(rate(vllm:request_success_total[5m])) / sum(rate(http_requests_total[5m])) < 0.95`, 0, state.Warning,
		"is not an error rate", "http_requests_total"},
	{
		"what is left of all", `(sum(rate(http_requests_total[5m])) - sum(rate(vllm:request_success_total[5m]))) / sum(rate(http_requests_total[5m])) > 0.05`, 0, state.Warning, "is not an error rate", "http_requests_total"},
	{"bool", `vllm:num_requests_waiting > bool 5`, 0, state.Critical, "always fires: a comparison with bool returns 1 or 0",
		"remove bool: `vllm:num_requests_waiting > 5`"},
	{"bool of anybody's metric", `(5 < bool max by (pod) (node_load1))`, 0, state.Critical, "always fires: a comparison with bool",
		"remove bool: `5 < max by (pod) (node_load1)`"},
	{"bools added up", `sum by (model_name) (vllm:num_requests_waiting > bool 5)`, 0, state.Critical,
		"always fires: a comparison with bool",
		"compare the result: `(sum by (model_name) (vllm:num_requests_waiting > bool 5)) > 0`"},
	{"bools counted", `count(up == bool 0) and on () vector(1)`, 0, state.Warning, "one part always holds: a comparison with bool",
		"compare the result: `(count(up == bool 0)) > 0`"},
	{"bool over time", `avg_over_time((vllm:num_requests_waiting > bool 5)[10m:1m])`, 0, state.Critical,
		"always fires: a comparison with bool", "compare the result"},
	{"bool for a mask", `vllm:num_requests_waiting * on (pod) (vllm:num_requests_running > bool 5)`, 0, state.Critical,
		"always fires: a comparison with bool", "compare the result"},
	{"bool as one condition", `vllm:num_requests_waiting > bool 5 and vllm:num_requests_running > 9`, 0, state.Warning,
		"one part always holds", "remove bool: `vllm:num_requests_waiting > 5`"},
	{"bool as one way", `vllm:num_requests_running > 9 or vllm:num_requests_waiting > bool 5`, 0, state.Critical,
		"always fires: a comparison with bool", "remove bool: `vllm:num_requests_waiting > 5`"},
	{"bool as an exception", `vllm:num_requests_waiting > 5 unless vllm:num_requests_running > bool 9`, 0, state.Warning,
		"one part always excludes", "remove bool: `vllm:num_requests_running > 9`"},
	{"none counted", `count(vllm:num_requests_running) == 0`, 0, state.Critical,
		"never fires: count is never 0: if there is no series to count, it has no value", "use `absent(vllm:num_requests_running)`"},
	{"fewer than one counted", `1 > count(up == 1)`, 0, state.Critical, "never fires: count is never 0", "use `absent(up == 1)`"},
	{"none counted of each", `count by (namespace, model_name) (vllm:num_requests_running) == 0`, 0, state.Critical,
		"never fires: count is never 0",
		"`group by (namespace, model_name) (last_over_time(vllm:num_requests_running[1h])) unless group by (namespace, model_name) " +
			"(vllm:num_requests_running)`"},
	{"nobody who is full counted", `count by (pod) (vllm:kv_cache_usage_perc > 0.9) == 0`, 0, state.Critical,
		"never fires: count is never 0", "(last_over_time((vllm:kv_cache_usage_perc > 0.9)[1h:]))"},
	{"no sample counted", `count_over_time(vllm:num_requests_running[5m]) < 1`, 0, state.Critical,
		"never fires: count_over_time is never 0", "use `absent_over_time(vllm:num_requests_running[5m])`"},
	{"no PromQL", `vllm:num_requests_waiting by (instance) > 3`, 0, state.Critical, "does not parse", "promtool"},
}

func TestLintFindsBrokenRules(t *testing.T) {
	for _, c := range faulty {
		t.Run(c.name, func(t *testing.T) {
			got := Lint([]AlertingRule{{Group: "g", Name: "R", Expr: c.expr, For: c.lasts}}, v1Fleet())
			if len(got) != 1 {
				t.Fatalf("%d findings: %+v", len(got), got)
			}
			f := got[0]
			if f.Severity != c.severity || !strings.Contains(f.Text, c.text) || !strings.Contains(f.Fix, c.fix) || f.Rule != "R" ||
				f.Group != "g" {
				t.Errorf("got %+v\nwant %s, %q, %q", f, c.severity, c.text, c.fix)
			}
		})
	}
}

func TestLintAcceptsSoundRules(t *testing.T) {
	for _, expr := range []string{
		`histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`,
		`histogram_quantile(0.95, sum without (pod) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2.5`,
		`vllm:gpu_cache_usage_perc > 0.9 or vllm:kv_cache_usage_perc > 0.9`, // one rule for two versions
		`changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0`,
		// Growth.
		`predict_linear(DCGM_FI_DEV_FB_USED[10m], 3600) > DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE and changes(DCGM_FI_DEV_FB_USED[10m]) > 3`,
		`deriv(DCGM_FI_DEV_FB_USED[6h]) > 1`,
		`DCGM_FI_DEV_FB_USED < 1000`,
		`DCGM_FI_DEV_FB_USED * 1024 * 1024 < 1e9`, // in bytes
		`sum(DCGM_FI_DEV_FB_FREE) > 2e6`,          // of a whole fleet
		`DCGM_FI_DEV_FB_FREE >= 0 and absent(up)`,
		// Compared with itself.
		`deriv(DCGM_FI_DEV_FB_USED[3h]) > 1 and DCGM_FI_DEV_FB_USED offset 3h > 0.5 * DCGM_FI_DEV_FB_USED`,
		// An idle GPU.
		`DCGM_FI_DEV_GPU_UTIL < 10`,
		`absent(sglang:num_queue_reqs)`,
		`sum(rate(vllm:generation_tokens_total[5m])) < 100 and sum(vllm:num_requests_waiting) > 0`,
		`rate(vllm:generation_tokens_total[5m]) == 0 and vllm:num_requests_running > 0`,
		`kube_pod_container_status_restarts_total > 3`, // another exporter's
		`rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]) < 1`,
		`vector(1)`,
		`DCGM_FI_DEV_XID_ERRORS > 0 unless DCGM_FI_DEV_XID_ERRORS offset 15m > 0`, // a workaround for the sticky gauge
		`DCGM_FI_DEV_XID_ERRORS == 79 and on (UUID) changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0`,
		`DCGM_FI_DEV_XID_ERRORS != DCGM_FI_DEV_XID_ERRORS offset 5m`,
		`vllm:num_preemptions_total - vllm:num_preemptions_total offset 5m > 3`,
		`count(vllm:generation_tokens_total) > 3`,
		`resets(vllm:generation_tokens_total[1h]) > 2`,
		`5 < histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))`,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) * 1000 > 2500`,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) * 1000 > 100`,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[5m]))) >= 80`,
		`{__name__=~"vllm:(gpu|kv)_cache_usage_perc"} > 0.9`, // one rule for two versions
		`{__name__="vllm:kv_cache_usage_perc"} > 0.9`,
		`count({__name__=~"vllm:.+"}) > 0`,
		`100 * vllm:kv_cache_usage_perc > 90`,
		`0.9 < vllm:kv_cache_usage_perc`,
		`sum(vllm:kv_cache_usage_perc) > 2`, // of several engines
		`count(vllm:kv_cache_usage_perc > 0.9) > 2`,
		`(count(vllm:num_requests_running) or vector(0)) == 0`, // a number replaces a missing value
		`count(vllm:num_requests_running) < 2`,
		`count(vllm:num_requests_running) > 0 and on () absent(up)`,
		`(vllm:num_requests_waiting > bool 5) == 1`,
		`sum(vllm:num_requests_waiting > bool 5) > 2`,
		`avg_over_time((vllm:num_requests_waiting > bool 5)[10m:1m]) > 0.5`,
		`(vllm:num_requests_waiting > bool 5) * (vllm:num_requests_running > bool 5) == 1`,
		`vllm:num_requests_waiting > 5 unless (vllm:num_requests_running > bool 9) == 1`,
		`(vllm:num_requests_waiting > 5) * on (pod) (vllm:num_requests_running > bool 5)`, // the other side filters
		`absent(vllm:num_requests_running > bool 5)`,
		`vllm:kv_cache_usage_perc == 1`,
		`1 - vllm:kv_cache_usage_perc < 0.1`,
		`DCGM_FI_DEV_GPU_UTIL == 0`,
		`DCGM_FI_DEV_GPU_UTIL < 1`,
		`avg_over_time(DCGM_FI_DEV_GPU_UTIL[1h]) < 0.5`, // idle for an hour
		`rate(vllm:prefix_cache_hits_total[5m]) / rate(vllm:prefix_cache_queries_total[5m]) < 0.3`,
		`rate(vllm:prompt_tokens_total[5m]) / rate(vllm:generation_tokens_total[5m]) > 20 or vector(0)`,
		// Compared with its past.
		`sum(rate(vllm:request_success_total[5m])) / sum(rate(vllm:request_success_total[5m] offset 1h)) > 3`,
		`sum(rate(vllm:request_success_total{finished_reason="abort"}[5m])) / sum(rate(vllm:request_success_total{finished_reason!="abort"}[5m])) > 2`,
		// A mean.
		`rate(vllm:time_to_first_token_seconds_sum[5m]) / rate(vllm:time_to_first_token_seconds_count[5m]) > 5 or vector(0)`,
		// Unknown metrics, or series that exist only after an event.
		`absent(DCGM_FI_DEV_XID_ERRORS)`, `up == 0`, `ALERTS{alertname="A"}`, `up`,
		`DCGM_FI_DEV_XID_ERRORS{err_code="79"}`,
		`vllm:num_requests_waiting unless vllm:num_requests_running > 0`,
		`vllm:num_requests_waiting and on (pod) vllm:kv_cache_usage_perc > 0.9`,
		`vllm:num_requests_waiting and on (pod) kube_pod_deletion_timestamp`,
		`vllm:num_requests_waiting * on (pod) (vllm:kv_cache_usage_perc > 0.9)`,
		`max by (pod) (vllm:kv_cache_usage_perc > 0.9)`,
		// Less traffic.
		`sum(rate(vllm:request_success_total[5m])) / sum(rate(vllm:request_success_total[5m] offset 1h)) < 0.3`,
		`1 - sum(rate(vllm:request_success_total[5m])) / sum(rate(vllm:request_success_total[5m] offset 1h)) > 0.7`,
		`sum(rate(vllm:request_success_total[5m])) < 1 and sum(vllm:num_requests_waiting) > 0`,
		`sum(rate(vllm:request_success_total{finished_reason="length"}[5m])) / sum(rate(vllm:request_success_total[5m])) < 0.1`,
		// Short answers.
		`rate(vllm:generation_tokens_total[5m]) / rate(vllm:request_success_total[5m]) < 10 and vllm:num_requests_running > 0`,
		`rate(vllm:request_success_total{finished_reason!~"abort|error"}[5m]) / vllm:num_requests_running < 0.01`,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])) + sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m] offset 5m))) > 5`,
	} {
		if got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, v1Fleet()); len(got) != 0 {
			t.Errorf("%s: %+v", expr, got)
		}
	}
	if got := Lint([]AlertingRule{
		{Name: "R", Expr: `max_over_time(changes(vllm:num_preemptions_total[5m])[30m:1m]) > 0`, For: 10 * time.Minute}}, v1Fleet()); len(
		got) != 0 {
		t.Errorf("an event that is remembered for half an hour: %+v", got)
	}
	if got := Lint([]AlertingRule{{Name: "R", Expr: `vllm:gpu_cache_usage_perc > 0.9`}}, Exported{}); len(got) != 0 {
		t.Errorf("nothing is known of what is exported, and yet: %+v", got)
	}
}

// A recording rule may contain the threshold: then its alert rule fires only if it has a series. A
// recording rule without a threshold needs one in the alert rule; the finding then names the
// recording rule.
func TestRecordedComparisonIsAThreshold(t *testing.T) {
	have := v1Fleet()
	have.Recorded = []RecordingRule{
		{Name: "llm:kv_full", Expr: `vllm:kv_cache_usage_perc > 0.95`}, {Name: "llm:kv", Expr: `max by (pod) (vllm:kv_cache_usage_perc)`},
		{Name: "llm:error_ratio", Expr: `1 - sum(rate(vllm:request_success_total[5m])) / sum(rate(http_requests_total[5m]))`},
	}
	for expr, want := range map[string]string{
		`llm:kv_full`: "", `max(llm:kv_full)`: "", `llm:kv > 0.9`: "",
		`llm:kv`: "always fires: there is no comparison, so the rule fires for every value, also for 0; " +
			"vllm:kv_cache_usage_perc always has a value, in the recording rule llm:kv",
		`llm:error_ratio > 0.05`: "is not an error rate: vllm:request_success_total counts all requests that the engine finished, also " +
			"cancelled ones. The others failed, still run, or never reached the engine, in the recording rule llm:error_ratio",
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, have)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Text != want) {
			t.Errorf("%s: %+v", expr, got)
		}
	}
}

// Full GPU memory depends on the fleet's engines; whether a rule fires depends only on the rule. A
// threshold in bytes is another mistake.
func TestLintReportsGPUMemoryThresholds(t *testing.T) {
	for _, c := range []struct {
		expr  string
		holds bool
		want  []string
	}{
		{`DCGM_FI_DEV_FB_FREE < 2048`, true,
			[]string{
				"critical does not show load: the engines here allocate GPU memory for their KV cache at the start and keep it, " +
					"so DCGM_FI_DEV_FB_FREE does not change with load; the rule holds now"}},
		{`DCGM_FI_DEV_FB_FREE < 2048`, false, []string{"warning does not show load"}},
		{`DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9`, true, []string{"critical does not show load"}},
		// Holds for other reasons.
		{`DCGM_FI_DEV_FB_FREE < 2048 and on () sum(vllm:num_requests_waiting) > 5`, true, []string{"warning does not show load"}},
		{`DCGM_FI_DEV_FB_USED > 80e9`, false,
			[]string{"critical never fires: DCGM_FI_DEV_FB_USED is in MiB, and no GPU has 80000000000 MiB, the threshold",
				"warning does not show load"}},
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: c.expr, Holds: c.holds}}, v1Fleet())
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", c.expr, got)
			continue
		}
		for i, want := range c.want {
			if data := string(got[i].Severity) + " " + got[i].Text; !strings.HasPrefix(data, want) || strings.Contains(data, "holds now") &&
				!strings.Contains(want, "critical") {
				t.Errorf("%s: %s, want %s", c.expr, data, want)
			}
		}
	}
}

// The suggested rules for KV caches are those of the packs, which also require waiting requests.
func TestSuggestedCacheRulesMatchPacks(t *testing.T) {
	const dir = "../../deploy/prometheus/"
	for _, c := range append(slices.Clone(caches),
		cache{usage: "DCGM_FI_DEV_FB_USED", as: "GPUMemoryGrows of deploy/prometheus/dcgm.yml"}) {
		alert, file, _ := strings.Cut(c.as, " of deploy/prometheus/")
		pack, err := os.ReadFile(dir + file)
		if err != nil || !strings.Contains(string(pack), "- alert: "+alert+"\n") {
			t.Errorf("%s: there is no alert %s in %s (%v)", c.usage, alert, file, err)
		}
		fleet := Exported{Metrics: map[string]bool{c.usage: true}}
		if c.rule == "" {
			continue
		}
		for _, sel := range promql.UsesOf(c.rule) {
			fleet.Metrics[sel.Metric] = true
		}
		if got := Lint([]AlertingRule{{Name: "R", Expr: c.rule}}, fleet); len(got) > 0 {
			t.Errorf("%s: %+v", c.rule, got)
		}
	}
}

// Ray and KServe rename vLLM's series. The rules are right if the names are restored at the scrape.
func TestLintSuggestsRenamingSeries(t *testing.T) {
	fleet := Exported{
		Metrics: map[string]bool{"up": true, "ray_vllm_num_requests_waiting": true, "ray_vllm_time_to_first_token_seconds_bucket": true,
			"kserve_vllm:kv_cache_usage_perc": true}}
	for _, expr := range []string{`vllm:num_requests_waiting > 20`, `vllm:kv_cache_usage_perc > 0.95`,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`} {
		if got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, fleet); len(got) != 1 || got[0].Severity != state.Critical ||
			!strings.Contains(got[0].Text, "_vllm") || !strings.Contains(got[0].Fix, "in the scrape configuration") {
			t.Errorf("%s: %+v", expr, got)
		}
	}
}

// A rule may name a series as another fleet has it. The proposal is an expression that fires.
func TestLintProposesExpressionsThatFire(t *testing.T) {
	for expr, want := range map[string]string{
		`kserve_vllm:num_requests_waiting > 20`:       "use `vllm:num_requests_waiting`",
		`vllm:request_queue_time_seconds > 5`:         "use `histogram_quantile(0.95, sum by (le) (rate(ray_vllm_request_queue_time_seconds_bucket[5m])))`",
		`kserve_vllm:time_to_first_token_seconds > 5`: "use `histogram_quantile(0.95, ",
	} {
		fleet := Exported{Metrics: map[string]bool{"up": true, "vllm:num_requests_waiting": true, "vllm:time_to_first_token_seconds_bucket": true,
			"ray_vllm_request_queue_time_seconds_bucket": true}}
		if got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, fleet); len(got) != 1 || !strings.Contains(got[0].Fix, want) {
			t.Errorf("%s: %+v", expr, got)
		}
	}
}

// A router that re-exports the engines' gauges doubles them. A rule that selects the engines has no
// finding.
func TestLintReportsRouterDoubleCounting(t *testing.T) {
	have := v1Fleet()
	have.Router = true
	for expr, want := range map[string]int{
		`sum(vllm:num_requests_waiting) > 20`:                1,
		`sum(vllm:num_requests_waiting{server=""}) > 20`:     0,
		`sum(vllm:num_requests_waiting{job="vllm"}) > 20`:    0,
		`sum(vllm:num_requests_waiting{model_name="m"}) > 9`: 1,
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, have)
		if len(got) != want || want == 1 && !strings.Contains(got[0].Fix, `vllm:num_requests_waiting{server=""}`) {
			t.Errorf("%s: %+v", expr, got)
		}
	}
}

// Names are data: since Prometheus 3 a metric may have any name.
func TestFindingsHaveNoControlCharacters(t *testing.T) {
	got := Lint([]AlertingRule{{Name: "R\x1b[31m", Expr: "{\"vllm:a\\u001b[2Jb\"} > 1"}}, v1Fleet())
	if len(got) != 1 || strings.ContainsRune(got[0].Text+got[0].Rule, '\x1b') {
		t.Errorf("got %+q", got)
	}
}

// PromQL in a fix is in backquotes, and is valid PromQL.
func TestSuggestedExpressionsAreValidPromQL(t *testing.T) {
	have, seen := v1Fleet(), 0
	check := func(of, fix string) {
		t.Helper()
		parts := strings.Split(fix, "`")
		if len(parts)%2 == 0 {
			t.Errorf("%s: a backquote too many in %q", of, fix)
		}
		for i := 1; i < len(parts); i += 2 {
			seen++
			if err := promql.ParsePromQL(parts[i]); err != nil {
				t.Errorf("%s: %q: %v", of, parts[i], err)
			}
			for _, f := range Lint([]AlertingRule{{Expr: parts[i]}}, Exported{}) {
				t.Errorf("%s: what is suggested is no better: %s: %s", of, parts[i], f.Text)
			}
		}
	}
	for name, f := range formers {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			check(name+suffix, f.instead(name+suffix))
		}
	}
	have.Router = true
	for _, c := range faulty {
		for _, f := range Lint([]AlertingRule{{Name: "hang", Expr: c.expr, For: c.lasts}}, have) {
			check(c.name, f.Fix)
		}
	}
	if seen < 200 {
		t.Errorf("only %d expressions were suggested", seen)
	}
}

func FuzzLint(f *testing.F) {
	for _, seed := range []string{`a > 1`, `histogram_quantile(0.9, x_bucket)`, `absent(vllm:x)`, `DCGM_FI_DEV_FB_USED > 1`, `((`,
		`{__name__="vllm:y"} == 0`, `a * 2 - a[5m]`, `sum by (le) (rate({__name__=~"vllm:.*"}[5m])) > on (pod) a`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		have := labelledFleet()
		have.Recorded = append(have.Recorded, RecordingRule{Name: "a", Expr: expr}) // which may read itself
		in := []AlertingRule{{Name: "R", Expr: expr}}
		Lookups(in, have)
		for _, found := range Lint(in, have) {
			if found.Text == "" || found.Fix == "" || found.Severity == "" {
				t.Errorf("a finding that says nothing: %+v", found)
			}
		}
	})
}

// Every engine has its own buckets, and Dynamo's newer releases have others than its older ones. A
// threshold that is right for one release has no finding.
func TestBucketThresholdsOfOtherEngines(t *testing.T) {
	const itl, e2e = "dynamo_frontend_inter_token_latency_seconds_bucket", "dynamo_frontend_request_duration_seconds_bucket"
	p95 := func(metric, threshold string) string {
		return "histogram_quantile(0.95, sum by (le) (rate(" + metric + "[5m]))) " + threshold
	}
	for expr, want := range map[string]string{
		p95("sglang:time_to_first_token_seconds_bucket", "> 5"):          "4 or 6",
		p95("sglang:time_to_first_token_seconds_bucket", "> 6"):          "",
		p95("dynamo_frontend_time_to_first_token_seconds_bucket", "> 2"): "1 or 2.2",
		p95("trtllm_time_to_first_token_seconds_bucket", "> 3"):          "2.5 or 5",
		p95("llm_d_epp_request_ttft_seconds_bucket", "> 2.5"):            "2 or 3",
		p95("llm_d_epp_request_ttft_seconds_bucket", "> 5"):              "",
		p95("llm_d_epp_request_ttft_seconds_bucket", "> 180"):            "less than 120",
		p95("llm_d_epp_request_duration_seconds_bucket", "> 180"):        "",
		p95("llm_d_epp_request_streaming_itl_seconds_bucket", "> 0.4"):   "0.3 or 0.5",
		p95(itl, "> 0.1"):   "a bucket's edge: 0.064 or 0.12 (0.084 or 0.16 in older releases)",
		p95(itl, "> 0.084"): "", p95(itl, "> 0.12"): "",
		p95(itl, "> 5"):                         "", // out of range in older releases
		p95(itl, "> 100"):                       "less than 80",
		p95(e2e, "> 10"):                        "8 or 16 (6.3 or 12 in older releases)",
		p95(e2e, "> 300"):                       "",
		p95(e2e, "> 600"):                       "less than 510",
		p95(e2e, "> 0.01"):                      "0 or 2 (0 or 1.9 in older releases)",
		"rate(" + itl + `{le="0.1"}[5m]) < 1`:   `le="0.064" or le="0.12" (le="0.084" or le="0.16" in older releases)`,
		"rate(" + itl + `{le="0.084"}[5m]) < 1`: "", "rate(" + itl + `{le="0.12"}[5m]) < 1`: "",
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, Exported{})
		if len(got) != min(len(want), 1) || want != "" && !strings.Contains(got[0].Fix, want) {
			t.Errorf("%s: %+v, want %q", expr, got, want)
		}
	}
}

// The edges of a fleet's series take precedence over those of known releases.
func TestBucketThresholdsOfFleetSeries(t *testing.T) {
	const metric = "dynamo_frontend_inter_token_latency_seconds_bucket"
	const p95 = "histogram_quantile(0.95, sum by (le, model) (rate(" + metric + "[5m])))"
	have := Exported{
		Metrics: map[string]bool{metric: true, "dynamo_frontend_inter_token_latency_seconds_count": true},
		Labels:  map[string]map[string][]string{metric: {"model": {"llama"}, "le": {"0", "0.035", "0.064", "0.12", "0.21", "+Inf"}}},
	}
	asked := func(than string) string {
		return p95 + " > 0.084 " + than + " sum by (model) (rate(" + metric +
			`{le=~"0.084|0.12"}[5m])) >= 0.95 * sum by (model) (rate(dynamo_frontend_inter_token_latency_seconds_count[5m]))`
	}
	for expr, want := range map[string]string{
		p95 + " > 0.084": "use a bucket's edge: 0.064 or 0.12", p95 + " > 0.12": "",
		// Filtered again by the edge of either release.
		asked("unless"): "", asked("or"): "use a bucket's edge: 0.064 or 0.12",
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, have)
		if len(got) != min(len(want), 1) || want != "" && got[0].Fix != want {
			t.Errorf("%s: %+v, want %q", expr, got, want)
		}
	}
}

// Dynamo spaces its edges evenly on a logarithmic scale and rounds them to two digits:
// generate_log_buckets in lib/llm/src/http/service/metrics.rs.
func TestDynamoBucketsMatchFormula(t *testing.T) {
	type spread struct {
		least, largest float64
		n              int
	}
	for metric, releases := range map[string][]spread{
		"dynamo_frontend_time_to_first_token_seconds": {{.001, 480, 18}},
		"dynamo_frontend_inter_token_latency_seconds": {{.001, 80, 20}, {.001, 2, 13}},
		"dynamo_frontend_request_duration_seconds":    {{1, 512, 10}, {1, 256, 10}},
	} {
		var want [][]float64
		for _, s := range releases {
			var edges []float64
			for i := range s.n - 1 {
				edge := s.least * math.Pow(s.largest/s.least, float64(i+1)/float64(s.n-1))
				rounded, err := strconv.ParseFloat(strconv.FormatFloat(edge, 'e', 1, 64), 64)
				if err != nil {
					t.Fatal(err)
				}
				edges = append(edges, rounded)
			}
			want = append(want, edges)
		}
		if diff := cmp.Diff(want, knownBuckets[metric]); diff != "" {
			t.Errorf("%s: %s", metric, diff)
		}
	}
}
