package rules

import (
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// v1Fleet is a fleet of vLLM V1 workers on GPUs, without Dynamo or SGLang.
func v1Fleet() Exported {
	have := Exported{Metrics: map[string]bool{}}
	for _, name := range strings.Fields(`up vllm:kv_cache_usage_perc vllm:num_requests_running vllm:num_requests_waiting vllm:num_preemptions_total
		vllm:time_to_first_token_seconds_bucket vllm:inter_token_latency_seconds_bucket vllm:e2e_request_latency_seconds_bucket
		vllm:generation_tokens_total DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_GPU_UTIL`) {
		have.Metrics[name] = true
	}
	return have
}

func TestRulesThatDoNotDoWhatTheyWereWrittenFor(t *testing.T) {
	for _, c := range []struct {
		name, expr string
		lasts      time.Duration
		severity   state.Severity
		text, fix  string
	}{
		{"renamed", `vllm:gpu_cache_usage_perc > 0.9`, 0, state.Critical, "can never fire: vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"},
		{"renamed histogram", `histogram_quantile(0.99, sum by (le) (rate(vllm:time_per_output_token_seconds_bucket[5m]))) > 0.2`, 0, state.Critical, "can never fire", "use vllm:inter_token_latency_seconds_bucket"},
		{"gone with V0", `vllm:num_requests_swapped > 0`, 0, state.Critical, "never swaps", "vllm:num_preemptions_total"},
		{"gone with V0, too", `vllm:cpu_cache_usage_perc > 0.5`, 0, state.Critical, "can never fire", "vllm:num_preemptions_total"},
		{"underscore", `vllm_num_requests_waiting > 20`, 0, state.Critical, "but vllm:num_requests_waiting is", "use vllm:num_requests_waiting"},
		{"invented", `llm_queue_depth > 200`, 0, state.Critical, "no engine has ever exported it", "vllm:num_requests_waiting"},
		{"invented in milliseconds", `histogram_quantile(0.99, sum by (le) (rate(dynamo_ttft_milliseconds_bucket[2m]))) > 500`, 0, state.Critical, "no engine has ever", "dynamo_frontend_time_to_first_token_seconds, with thresholds in seconds"},
		{"not exported", `rate(vllm:request_failure_total[5m]) > 0`, 0, state.Warning, "other vllm:* metrics are (or has not counted", "/metrics"},
		{"no such engine", `sglang:num_queue_reqs > 20`, 0, state.Info, "nothing exports sglang:* metrics", "scrape"},
		{"absent for good", `absent(vllm:gpu_cache_usage_perc)`, 0, state.Critical, "fires always", "vllm:kv_cache_usage_perc"},
		{"no aggregation", `histogram_quantile(0.95, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 5`, 0, state.Warning, "every single series", "sum by (le, model_name)"},
		{"le is lost", `histogram_quantile(0.95, sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, 0, state.Critical, "le is aggregated away", "keep le"},
		{"le is taken away", `histogram_quantile(0.95, sum without (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, 0, state.Critical, "le is aggregated away", "keep le"},
		{"between buckets", `histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 3`, 0, state.Warning, "between the buckets 2.5 and 5", "2.5 or 5"},
		{"no such bucket", `rate(vllm:time_to_first_token_seconds_bucket{le="2.0"}[5m]) < 1`, 0, state.Critical, `no bucket le="2.0"`, `le="1" or le="2.5"`},
		{"preallocated", `DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95`, 0, state.Critical, "fires always", "KV cache"},
		{"sticky", `DCGM_FI_DEV_XID_ERRORS > 0`, 0, state.Critical, "never clears", "changes("},
		{"hang by utilisation", `DCGM_FI_DEV_GPU_UTIL < 5 and on (pod) vllm:num_requests_running > 0`, 0, state.Warning, "misses hangs", "generation_tokens_total"},
		{"one event and a long wait", `increase(vllm:num_preemptions_total[5m]) > 0`, 10 * time.Minute, state.Critical, "`for: 10m` it has left the window of 5m", "longer than `for`"},
		{"a histogram's name", `vllm:time_to_first_token_seconds > 5`, 0, state.Critical, "is a histogram", "vllm:time_to_first_token_seconds_bucket"},
		{"a drop without its traffic", `sum(rate(vllm:generation_tokens_total[5m])) < 0.5 * sum(rate(vllm:generation_tokens_total[30m] offset 1h))`, 0, state.Warning, "when users leave", "requests running"},
		{"a level without its traffic", `sum(rate(vllm:generation_tokens_total[5m])) < 100`, 0, state.Warning, "when users leave", "requests that wait"},
		{"no PromQL", `vllm:num_requests_waiting by (instance) > 3`, 0, state.Critical, "does not parse", "promtool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Lint([]AlertingRule{{Group: "g", Name: "R", Expr: c.expr, For: c.lasts}}, v1Fleet())
			if len(got) != 1 {
				t.Fatalf("%d findings: %+v", len(got), got)
			}
			f := got[0]
			if f.Severity != c.severity || !strings.Contains(f.Text, c.text) || !strings.Contains(f.Fix, c.fix) || f.Rule != "R" || f.Group != "g" {
				t.Errorf("got %+v\nwant %s, %q, %q", f, c.severity, c.text, c.fix)
			}
		})
	}
}

func TestSoundRulesAreLeftAlone(t *testing.T) {
	for _, expr := range []string{
		`histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`,
		`histogram_quantile(0.95, sum without (pod) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 2.5`,
		`vllm:gpu_cache_usage_perc > 0.9 or vllm:kv_cache_usage_perc > 0.9`, // one rule for two versions
		`changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0`,
		`deriv(DCGM_FI_DEV_FB_USED[6h]) > 1`,
		`DCGM_FI_DEV_FB_USED < 1000`,
		`deriv(DCGM_FI_DEV_FB_USED[3h]) > 1 and DCGM_FI_DEV_FB_USED offset 3h > 0.5 * DCGM_FI_DEV_FB_USED`, // compared with itself
		`DCGM_FI_DEV_GPU_UTIL < 10`,                                                                        // an idle GPU
		`absent(sglang:num_queue_reqs)`,
		`sum(rate(vllm:generation_tokens_total[5m])) < 100 and sum(vllm:num_requests_waiting) > 0`,
		`rate(vllm:generation_tokens_total[5m]) == 0 and vllm:num_requests_running > 0`,
		`kube_pod_container_status_restarts_total > 3`, // another exporter's
		`rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]) < 1`,
		`vector(1)`,
	} {
		if got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, v1Fleet()); len(got) != 0 {
			t.Errorf("%s: %+v", expr, got)
		}
	}
	if got := Lint([]AlertingRule{{Name: "R", Expr: `vllm:gpu_cache_usage_perc > 0.9`}}, Exported{}); len(got) != 0 {
		t.Errorf("nothing is known of what is exported, and yet: %+v", got)
	}
}

// A router that re-exports the engines' gauges doubles them; who selects engines is not told.
func TestRouterSeriesAreCountedTwice(t *testing.T) {
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

// Names are data: since Prometheus 3 a metric may be called anything.
func TestFindingsKeepTheTerminalClean(t *testing.T) {
	got := Lint([]AlertingRule{{Name: "R\x1b[31m", Expr: "{\"vllm:a\\u001b[2Jb\"} > 1"}}, v1Fleet())
	if len(got) != 1 || strings.ContainsRune(got[0].Text+got[0].Rule, '\x1b') {
		t.Errorf("got %+q", got)
	}
}

func FuzzLint(f *testing.F) {
	for _, seed := range []string{`a > 1`, `histogram_quantile(0.9, x_bucket)`, `absent(vllm:x)`, `DCGM_FI_DEV_FB_USED > 1`, `((`, `{__name__="vllm:y"} == 0`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		for _, found := range Lint([]AlertingRule{{Name: "R", Expr: expr}}, v1Fleet()) {
			if found.Text == "" || found.Fix == "" || found.Severity == "" {
				t.Errorf("a finding that says nothing: %+v", found)
			}
		}
	})
}

// Every engine has buckets of its own.
func TestThresholdsBetweenTheBucketsOfOtherEngines(t *testing.T) {
	for expr, want := range map[string]string{
		`histogram_quantile(0.95, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket[5m]))) > 5`:            "4 or 6",
		`histogram_quantile(0.95, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket[5m]))) > 6`:            "",
		`histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_time_to_first_token_seconds_bucket[5m]))) > 2`:   "1 or 2.2",
		`histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_inter_token_latency_seconds_bucket[5m]))) > 0.1`: "0.084 or 0.16",
		`histogram_quantile(0.95, sum by (le) (rate(trtllm_time_to_first_token_seconds_bucket[5m]))) > 3`:            "2.5 or 5",
		`histogram_quantile(0.95, sum by (le) (rate(llm_d_epp_request_ttft_seconds_bucket[5m]))) > 2.5`:              "2 or 3",
		`histogram_quantile(0.95, sum by (le) (rate(llm_d_epp_request_ttft_seconds_bucket[5m]))) > 5`:                "",
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: expr}}, Exported{})
		if len(got) != min(len(want), 1) || want != "" && !strings.Contains(got[0].Fix, want) {
			t.Errorf("%s: %+v, want %q", expr, got, want)
		}
	}
}
