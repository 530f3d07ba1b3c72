package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/promql"
	"paramedic/state"
)

// A rule is checked with the expressions of its recording rules.
func TestLintExpandsRecordingRules(t *testing.T) {
	have := v1Fleet()
	have.Recorded = []RecordingRule{
		{
			Name: "llm:ttft:p95", Expr: `histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m])))`},
		{Name: "llm:ttft_ms:p95", Expr: `1000 * llm:ttft:p95`},
		{Name: "llm:ttft:by_model", Expr: `sum by (model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))`},
		{Name: "llm:ttft:buckets", Expr: `sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))`},
		{Name: "llm:kv", Expr: `vllm:gpu_cache_usage_perc`},
		{Name: "vllm:gpu_cache_usage_perc:max", Expr: `max by (model_name) (vllm:kv_cache_usage_perc)`},
		{Name: "vllm:cpu_cache_usage_perc", Expr: `vllm:kv_cache_usage_perc`}, // an old name kept alive
		{Name: "llm:limit", Expr: `vector(3)`},
		{Name: "llm:target", Expr: `vector(0.5)`, Labels: map[string]string{"use_case": "chat"}},
		{Name: "llm:target", Expr: `vector(90)`, Labels: map[string]string{"use_case": "batch"}},
		{Name: "llm:signal", Expr: `vllm:gpu_cache_usage_perc`, Labels: map[string]string{"engine": "old"}},
		{Name: "llm:signal", Expr: `vllm:kv_cache_usage_perc`, Labels: map[string]string{"engine": "new"}},
		{Name: "llm:round", Expr: `llm:about`},
		{Name: "llm:about", Expr: `llm:round`},
		{Name: "llm:broken", Expr: `sum(`},
		{Name: "llm:xid", Expr: `max by (UUID) (DCGM_FI_DEV_XID_ERRORS)`},
		{Name: "llm:preemptions", Expr: `increase(vllm:num_preemptions_total[5m])`},
	}
	for _, c := range []struct{ expr, text, fix string }{
		{
			`llm:ttft:p95 > 3`, "lies between the buckets 2.5 and 5 of vllm:time_to_first_token_seconds_bucket, where the quantile " +
				"is only interpolated, in the recording rule llm:ttft:p95", "2.5 or 5"},
		{`llm:ttft:p95 > 5`, "", ""},
		{`3000 < llm:ttft_ms:p95`, "in the recording rule llm:ttft_ms:p95", "2500 or 5000"},
		{`llm:ttft:p95 > llm:limit`, "the threshold 3 lies between", "2.5 or 5"},
		{`max_over_time(llm:ttft:p95[10m]) > 3`, "lies between", "2.5 or 5"},
		{`histogram_quantile(0.9, llm:ttft:by_model) > 5`,
			"removes the label le, so histogram_quantile has no buckets of vllm:time_to_first_token_seconds_bucket, in " +
				"the recording rule llm:ttft:by_model", "keep le"},
		{`histogram_quantile(0.9, llm:ttft:buckets) > 5`, "", ""},
		{`histogram_quantile(0.9, llm:ttft:buckets) > 3`, "lies between", "2.5 or 5"},
		{
			`llm:kv > 0.9`, "never fires: vllm:gpu_cache_usage_perc is not exported here; vLLM V1 has renamed it, in the recording " +
				"rule llm:kv", "use `vllm:kv_cache_usage_perc`"},
		{`vllm:gpu_cache_usage_perc:max > 0.9`, "", ""},
		{`vllm:gpu_cache_usage_perc:max > 90`, "vllm:kv_cache_usage_perc is from 0 to 1", "compare with 0.9"},
		{`vllm:cpu_cache_usage_perc > 0.9`, "", ""},
		{`vllm:kv_cache_usage_perc > on () group_left () llm:target{use_case="batch"}`, "the threshold is 90", "compare with 0.9"},
		{`vllm:kv_cache_usage_perc > on () group_left () llm:target{use_case="chat"}`, "", ""},
		{`llm:signal{engine="old"} > 0.9`, "vLLM V1 has renamed it, in the recording rule llm:signal", "use `vllm:kv_cache_usage_perc`"},
		{`llm:signal{engine="new"} > 0.9`, "", ""},
		{`llm:signal > 0.9`, "", ""}, // the other engine answers
		{`{__name__=~"llm:ttft:p9.+"} > 3`, "lies between", "2.5 or 5"},
		{`llm:round > 3`, "", ""},
		{`llm:broken > 3`, "", ""},
		{
			`llm:xid > 0`, "never resolves: DCGM_FI_DEV_XID_ERRORS keeps the last code until the driver is reloaded, in the recording " +
				"rule llm:xid", "changes("},
		{`changes(llm:xid[15m]) > 0`, "", ""},
	} {
		have.Metrics["llm:ttft:p95"] = true
		got := Lint([]AlertingRule{{Name: "R", Expr: c.expr}}, have)
		if len(got) != min(len(c.text), 1) || c.text != "" &&
			(!strings.Contains(got[0].Text, c.text) || !strings.Contains(got[0].Fix, c.fix)) {
			t.Errorf("%s: %+v\nwant %q, %q", c.expr, got, c.text, c.fix)
		}
	}
}

// Recording rules that read each other are expanded only up to a limit.
func TestNestedRecordingRulesAreBounded(t *testing.T) {
	have := v1Fleet()
	for i := range 30 {
		have.Recorded = append(have.Recorded,
			RecordingRule{Name: fmt.Sprintf("llm:r%d", i), Expr: fmt.Sprintf("llm:r%d + llm:r%d", i+1, i+1)})
	}
	have.Recorded = append(have.Recorded, RecordingRule{Name: "llm:r30", Expr: "vllm:gpu_cache_usage_perc"})
	if got := Lint([]AlertingRule{{Name: "R", Expr: "llm:r0 > 3"}}, have); len(got) > 1 {
		t.Errorf("%d findings: %+v", len(got), got)
	}
}

// labelledFleet returns a fleet whose series' labels are known.
func labelledFleet() Exported {
	have := v1Fleet()
	engine := map[string][]string{"model_name": {"llama-70b", "qwen"}, "namespace": {"llm"}, "pod": {"vllm-0", "vllm-1"}, "engine": {"0"},
		"job": {"vllm"}}
	with := func(label string, values ...string) map[string][]string {
		out := map[string][]string{label: values}
		for k, v := range engine {
			out[k] = v
		}
		return out
	}
	gpu := map[string][]string{"gpu": {"0", "1"}, "UUID": {"GPU-1"}, "Hostname": {"node-1"}, "pod": {"dcgm-exporter-x"},
		"exported_pod": {"vllm-0"}, "namespace": {"gpu-operator"}, "exported_namespace": {"llm"}}
	have.Labels = map[string]map[string][]string{
		"vllm:kv_cache_usage_perc": engine, "vllm:num_requests_running": engine, "vllm:num_requests_waiting": engine,
		"vllm:generation_tokens_total":            engine,
		"vllm:request_success_total":              with("finished_reason", "stop", "length", "abort"),
		"vllm:time_to_first_token_seconds_bucket": with("le", "0.5", "1.0", "3.0", "10.0", "+Inf"),
		"vllm:e2e_request_latency_seconds_bucket": with("le"), // unknown, for example because there are too many
		"DCGM_FI_DEV_XID_ERRORS":                  gpu, "DCGM_FI_DEV_GPU_UTIL": gpu,
		"llm:kv": {"model_name": {"llama-70b"}},
	}
	have.Labels["vllm:e2e_request_latency_seconds_bucket"]["le"] = nil
	have.Metrics["llm:kv"] = true
	have.Recorded = []RecordingRule{{Name: "llm:kv", Expr: "max by (model_name) (vllm:kv_cache_usage_perc)"}}
	return have
}

// The labels and values of a selector have to exist on the metric's series.
func TestLintReportsMissingLabels(t *testing.T) {
	for _, c := range []struct {
		expr      string
		severity  state.Severity
		text, fix string
	}{
		{`DCGM_FI_DEV_XID_ERRORS{err_code="79"} > 0`, state.Critical, "DCGM_FI_DEV_XID_ERRORS has no label err_code",
			"`DCGM_FI_DEV_XID_ERRORS == 79 unless DCGM_FI_DEV_XID_ERRORS offset 15m == 79`"},
		{`vllm:kv_cache_usage_perc{tenant="a"} > 0.9`, state.Critical, "no series of vllm:kv_cache_usage_perc has a label tenant",
			"model_name"},
		{`vllm:kv_cache_usage_perc{model="qwen"} > 0.9`, state.Critical, "the label is called model_name",
			"`vllm:kv_cache_usage_perc{model_name=\"qwen\"}`"},
		{`vllm:kv_cache_usage_perc{model_name="lama-70b"} > 0.9`, state.Warning, `has model_name="lama-70b"`, "llama-70b, qwen"},
		{`vllm:kv_cache_usage_perc{model_name=~"mistral.*|gemma.*"} > 0.9`, state.Warning, `has model_name=~"mistral.*|gemma.*"`,
			"llama-70b, qwen"},
		{`DCGM_FI_DEV_GPU_UTIL{pod=~"vllm-.*"} < 10`, state.Critical, "the label is called exported_pod",
			"`DCGM_FI_DEV_GPU_UTIL{exported_pod=~\"vllm-.*\"}`"},
		{`rate(vllm:request_success_total{finish_reason="abort"}[5m]) > 1`, state.Critical, "the label is called finished_reason",
			"finished_reason=\"abort\""},
		{`rate(vllm:request_success_total{finished_reason="aborted"}[5m]) > 1`, state.Warning, `finished_reason="aborted"`,
			"abort, length, stop"},
		{`rate(vllm:time_to_first_token_seconds_bucket{le="1"}[5m]) < 1`, state.Critical, `no bucket le="1"`,
			`le="1.0", as the engine exports it`},
		{`rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]) < 1`, state.Critical, `no bucket le="2.5"`, `le="1.0" or le="3.0"`},
		{`llm:kv{model_name="mistral"} > 0.9`, state.Warning, `no series of llm:kv has model_name="mistral"`, "llama-70b"},
		// Buckets come from the series, not from the defaults.
		{`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5`, state.Warning,
			"between the buckets 3 and 10", "3 or 10"},
		{`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 10`, state.Critical,
			"never above its largest bucket, 10", "less than 10"},
		{`sum by (model) (vllm:num_requests_waiting) > 20`, state.Warning,
			"no series of vllm:num_requests_waiting has a label model here; it is called model_name", "group by model_name"},
		{`max by (tenant) (vllm:num_requests_waiting) > 20`, state.Warning, "groups everything into one", "model_name"},
		// Neither side has it.
		{`vllm:num_requests_running > 0 and on (UUID) rate(vllm:generation_tokens_total[5m]) == 0`, "", "", ""},
		{`vllm:num_requests_running > 0 and on (UUID) DCGM_FI_DEV_GPU_UTIL > 50`, state.Warning,
			"and never matches: it matches by UUID, which only one side has", "namespace, pod"},
		{`vllm:num_requests_waiting > 5 and rate(vllm:request_success_total[5m]) == 0`, state.Warning,
			"never matches: it matches by finished_reason", "model_name"},
		{`vllm:num_requests_waiting > 5 unless on (gpu) DCGM_FI_DEV_GPU_UTIL > 50`, state.Warning, "unless excludes nothing", "on ("},
		// Rules without findings.
		{`vllm:kv_cache_usage_perc{model_name="qwen", namespace=~"llm|prod"} > 0.9`, "", "", ""},
		{`vllm:kv_cache_usage_perc{server=""} > 0.9`, "", "", ""},
		{`vllm:kv_cache_usage_perc{server=~"|a"} > 0.9`, "", "", ""},
		{`vllm:kv_cache_usage_perc{tenant!="a"} > 0.9`, "", "", ""},
		{`vllm:kv_cache_usage_perc{model="qwen"} > 0.9 or vllm:kv_cache_usage_perc{model_name="qwen"} > 0.9`, "", "", ""},
		{`absent(vllm:kv_cache_usage_perc{model_name="mistral"})`, "", "", ""}, // it expects missing series
		{`rate(vllm:time_to_first_token_seconds_bucket{le="+Inf"}[5m]) < 1`, "", "", ""},
		{`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 3`, "", "", ""},
		// The default buckets.
		{`histogram_quantile(0.95, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 30`, "", "", ""},
		// No label cluster here, which is harmless.
		{`sum by (cluster, namespace, model_name) (vllm:num_requests_waiting) > 20`, "", "", ""},
		{`vllm:num_requests_running > 0 and on (namespace, pod) rate(vllm:generation_tokens_total[5m]) == 0`, "", "", ""},
		{
			`sum by (model_name) (rate(vllm:request_success_total[5m])) == 0 and on (model_name) sum by (model_name) (vllm:num_requests_waiting) > 0`, "", "", ""},
		{`vllm:num_requests_waiting > 5 and on () sum(rate(vllm:request_success_total[5m])) < 1`, "", "", ""},
		{`llm:kv{model_name="llama-70b"} > 0.9`, "", "", ""},
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: c.expr}}, labelledFleet())
		if len(got) != min(len(c.text), 1) || c.text != "" &&
			(got[0].Severity != c.severity || !strings.Contains(got[0].Text, c.text) || !strings.Contains(got[0].Fix, c.fix)) {
			t.Errorf("%s: %+v\nwant %s, %q, %q", c.expr, got, c.severity, c.text, c.fix)
		}
		for _, f := range got {
			for i, part := range strings.Split(f.Fix, "`") {
				if i%2 == 1 && promql.ParsePromQL(part) != nil {
					t.Errorf("%s: %q is no PromQL", c.expr, part)
				}
			}
		}
	}
	have := labelledFleet()
	have.Labels = nil
	if got := Lint([]AlertingRule{{Name: "R", Expr: `vllm:kv_cache_usage_perc{tenant="a"} > 0.9`}}, have); len(got) != 0 {
		t.Errorf("nothing is known of labels, and yet: %+v", got)
	}
	// The values of event labels appear with the first event. Newer exporters have the label from
	// the start.
	have = labelledFleet()
	have.Labels[xidErrors]["err_code"] = []string{"0"}
	if got := Lint([]AlertingRule{
		{Name: "R", Expr: `DCGM_FI_DEV_XID_ERRORS{err_code="79"} > 0 unless DCGM_FI_DEV_XID_ERRORS{err_code="79"} offset 15m > 0`}},
		have); len(got) != 0 {
		t.Errorf("a fault that has not happened yet: %+v", got)
	}
}

// An exporter that puts the code into a label creates a series for each code, and its value never
// changes.
func TestLintReportsChangesOfLabelledXid(t *testing.T) {
	plain, labelled := labelledFleet(), labelledFleet()
	labelled.Labels[xidErrors]["err_code"] = []string{"0"}
	for expr, want := range map[string]bool{
		`changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0`:                                                true,
		`increase(DCGM_FI_DEV_XID_ERRORS{gpu="0"}[15m]) > 0`:                                      true,
		`sum by (UUID) (changes((DCGM_FI_DEV_XID_ERRORS{err_code="79"})[15m:15s])) > 0`:           true,
		`DCGM_FI_DEV_XID_ERRORS == 79 and on (UUID) changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0`:     true,
		`changes((max by (UUID) (DCGM_FI_DEV_XID_ERRORS))[15m:15s]) > 0`:                          false,
		`DCGM_FI_DEV_XID_ERRORS > 0 unless on (UUID, err_code) DCGM_FI_DEV_XID_ERRORS offset 15m`: false,
		`changes(DCGM_FI_DEV_GPU_UTIL[15m]) > 0`:                                                  false,
	} {
		in := []AlertingRule{{Name: "R", Expr: expr}}
		got := Lint(in, labelled)
		if found := len(got) == 1 && got[0].Severity == state.Critical &&
			strings.Contains(got[0].Text, "never fires: the exporter here puts the code"); found != want || !want && len(got) != 0 {
			t.Errorf("%s: %+v", expr, got)
		}
		if want && !slices.ContainsFunc(Lookups(in, plain), func(l Lookup) bool { return l.Metric == xidErrors }) {
			t.Errorf("%s: nobody asks for the labels", expr)
		}
		if !strings.Contains(expr, "err_code") {
			if got := Lint(in, plain); len(got) != 0 {
				t.Errorf("%s, where the value changes: %+v", expr, got)
			}
		}
	}
}

// Lookups asks only for labels that rules depend on, since a fleet has thousands of metrics.
func TestLookupsCoverOnlyLabelsInRules(t *testing.T) {
	have := v1Fleet()
	have.Recorded = []RecordingRule{{Name: "llm:kv", Expr: `max by (model_name) (vllm:kv_cache_usage_perc{engine="0"})`}}
	have.Metrics["llm:kv"] = true
	got := Lookups([]AlertingRule{
		{Expr: `llm:kv{model_name="a"} > 0.9`},
		{Expr: `DCGM_FI_DEV_XID_ERRORS{err_code=~"79|94", pod!="", server=""} > 0`},
		{Expr: `histogram_quantile(0.9, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{job="a"}[5m]))) > 3`},
		{Expr: `kube_pod_status_ready{pod="a"} > 0 and vllm:gone{pod="a"} > 1 and vllm:num_preemptions_total > 3`},
		{Expr: `vllm:num_requests_waiting > 3`},
		{Expr: `sum(`},
		{Expr: strings.Repeat(" ", maxLinted) + `vllm:num_requests_waiting{pod="a"} > 3`},
	}, have)
	want := []Lookup{
		{Metric: "DCGM_FI_DEV_XID_ERRORS", Labels: []string{"err_code", "pod"}},
		{Metric: "llm:kv", Labels: []string{"model_name"}},
		{Metric: "vllm:kv_cache_usage_perc", Labels: []string{"engine"}},
		{Metric: "vllm:num_preemptions_total"},
		{Metric: "vllm:time_to_first_token_seconds_bucket", Labels: []string{"job", "le"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(got, func(a, b Lookup) int { return strings.Compare(a.Metric, b.Metric) }) {
		t.Error("not in order")
	}
}

// namedFleet returns a fleet with exporters that are not engines, and recording rules.
func namedFleet() Exported {
	have := v1Fleet()
	for _, name := range strings.Fields(`http_requests_total http_4xx_total http_request_duration_seconds_bucket http_request_duration_seconds_count
		kube_pod_container_status_restarts_total kube_pod_container_status_ready kube_pod_status_ready kube_deployment_status_replicas_ready
		node_network_rx_errors_total node_load1 process_resident_memory_bytes cache_get_total llm:queue:p95`) {
		have.Metrics[name] = true
	}
	have.Recorded = []RecordingRule{{Name: "llm:queue:p95", Expr: `max(vllm:num_requests_waiting)`},
		{Name: "llm:kv_usage", Expr: `max(vllm:kv_cache_usage_perc)`}}
	have.Earlier = map[string]bool{"cache_gets_total": true, "job:errors:rate5m": true}
	return have
}

// A missing name is reported only if it must be a mistake. Metrics that appear later, of an
// exporter that is down, or of another team are not reported.
func TestLintReportsMisspeltNames(t *testing.T) {
	for _, c := range []struct{ expr, severity, text, fix string }{
		{`kube_pod_container_status_restart_total > 5`, "warning",
			"does not fire: no series here has had the name kube_pod_container_status_restart_total in the last week, but there is " +
				"kube_pod_container_status_restarts_total", "use `kube_pod_container_status_restarts_total`, if you mean that"},
		{`rate(http_request_total[5m]) > 1`, "warning", "but there is http_requests_total", "use `http_requests_total`"},
		{`rate(http_requests[5m]) > 1`, "warning", "but there is http_requests_total", "use `http_requests_total`"},
		{`HTTP_Requests_Total > 1`, "warning", "but there is http_requests_total", "use `http_requests_total`"},
		{`http_reqeusts_total > 1`, "warning", "but there is http_requests_total", "use `http_requests_total`"},
		{`process_resident_memory > 1e9`, "warning", "but there is process_resident_memory_bytes", "use `process_resident_memory_bytes`"},
		{`kube_deployment_status_replica_ready == 0`, "warning", "but there is kube_deployment_status_replicas_ready",
			"use `kube_deployment_status_replicas_ready`"},
		{`vllm:num_request_waiting > 20`, "warning",
			"does not fire: vllm:num_request_waiting is not exported here, but vllm:num_requests_waiting is",
			"use `vllm:num_requests_waiting`"},
		{`http_request_duration_seconds > 5`, "critical", "never fires: http_request_duration_seconds is a histogram",
			"`histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`"},
		{
			`llm:kv > 0.9`, "warning", "does not fire: no series here has had the name llm:kv in the last week, and no recording rule here " +
				"records it", "add a recording rule"},
		{`llm:kv_usages > 0.9`, "warning", "but there is llm:kv_usage", "use `llm:kv_usage`"},
		{`llm:queue:p99 > 5`, "warning", "no recording rule here records it", "add a recording rule"}, // not p95
		{`vllm:num_requests_waiting > 5 and on () llm:kv > 0.9`, "warning", "no recording rule here records it", "add a recording rule"},
		{`absent(http_request_total)`, "warning",
			"always fires: no series here has had the name http_request_total in the last week, but there is http_requests_total",
			"use `http_requests_total`"},
		{`absent(vllm:num_request_waiting)`, "warning", "always fires", "use `vllm:num_requests_waiting`"},

		{`llm:kv_usage > 0.9`, "", "", ""},    // recorded, but not yet evaluated
		{`llm:queue:p95 > 5`, "", "", ""},     // recorded
		{`node_load5 > 5`, "", "", ""},        // a different number is no typing error
		{`http_5xx_total > 5`, "", "", ""},    // appears with the first event
		{`cache_set_total > 5`, "", "", ""},   // nor is a short word
		{`mysql_up == 0`, "", "", ""},         // another team's, or down
		{`tcp_rx_total > 5`, "", "", ""},      // no similar name exists
		{`http_errors_total > 5`, "", "", ""}, // appears with the first event
		{`kube_pod_status_unschedulable == 1`, "", "", ""},
		{`kube_pod_container_status_waiting_reason{reason="ImagePullBackOff"} == 1`, "", "", ""},
		{`kube_pod_status_ready_time > 0`, "", "", ""},
		{`kube_statefulset_status_replicas_ready == 0`, "", "", ""},
		{`node_network_tx_errors_total > 5`, "", "", ""},
		{`cache_gets_total > 5`, "", "", ""},                              // existed last week
		{`job:errors:rate5m > 0.1`, "", "", ""},                           // so did this one: recorded elsewhere
		{`http_request_total > 5 or http_requests_total > 5`, "", "", ""}, // one rule for two versions
		{`http_requests_total > 5 unless http_request_total > 5`, "", "", ""},
		{`rate(llm_d_epp_request_error_total[5m]) > 1`, "info", "there are no llm_d_* metrics here", "scrape"},
		{`absent(mysql_up)`, "", "", ""},
		{`absent(http_request_total) and on () absent(http_requests_total)`, "", "", ""},
		{`ALERTS{alertstate="firing"} == 1`, "", "", ""},
		{`{job="a"} > 5`, "", "", ""},
	} {
		got := Lint([]AlertingRule{{Name: "R", Expr: c.expr}}, namedFleet())
		if len(got) != min(len(c.text), 1) || c.text != "" &&
			(string(got[0].Severity) != c.severity || !strings.Contains(got[0].Text, c.text) || !strings.Contains(got[0].Fix, c.fix)) {
			t.Errorf("%s: %+v\nwant %s, %q, %q", c.expr, got, c.severity, c.text, c.fix)
		}
	}
	have := namedFleet()
	have.Metrics["llm_d_epp_request_total"] = true
	if got := Lint([]AlertingRule{{Name: "R", Expr: `rate(llm_d_epp_request_error_total[5m]) > 1`}}, have); len(got) != 0 {
		t.Errorf("a counter of errors that has not counted any: %+v", got)
	}
	have = namedFleet()
	have.Earlier = nil
	if got := Lint([]AlertingRule{{Name: "R", Expr: `http_request_total > 5`}}, have); len(got) != 1 ||
		!strings.HasPrefix(got[0].Text, "does not fire: no series here has the name http_request_total, but") {
		t.Errorf("nobody asked about earlier, and it says %+v", got)
	}
	if got := Lint([]AlertingRule{{Name: "R", Expr: `http_request_total > 5`}}, Exported{}); len(got) != 0 {
		t.Errorf("nothing is known of what is exported, and yet: %+v", got)
	}
}

// Unjudged lists names without a finding, Suspects the names to look up.
func TestSuspectsAndUnjudged(t *testing.T) {
	in := []AlertingRule{
		{Expr: `http_request_total > 5 or kube_pod_status_unschedulable == 1`}, {Expr: `llm:kv > 0.9`},
		{Expr: `absent(mysql_up) or absent(http_requests)`}, {Expr: `job:errors:rate5m > 1`},
		{Expr: `vllm:num_request_waiting > 5 and up == 1`}, {Expr: `sum(`}, {Expr: `llm:queue:p95 > 3`},
		{Expr: `cache_gets_total > 3 or node_load5 > 3`},
	}
	if diff := cmp.Diff([]string{"cache_gets_total", "http_request_total", "http_requests", "job:errors:rate5m", "llm:kv"},
		Suspects(in, namedFleet())); diff != "" {
		t.Errorf("suspects: %s", diff)
	}
	if diff := cmp.Diff([]string{"cache_gets_total", "job:errors:rate5m", "kube_pod_status_unschedulable", "node_load5"},
		Unjudged(in, namedFleet())); diff != "" {
		t.Errorf("not judged: %s", diff)
	}
}

// A rate needs two samples. The scrape interval is that of the metric's job.
func TestLintReportsRangesBelowTwoScrapes(t *testing.T) {
	have := namedFleet()
	have.Metrics["pushed_total"], have.Metrics["slow_total"] = true, true
	have.Scraped = map[string]time.Duration{"vllm": 5 * time.Second, "fast": time.Second, "slow": time.Minute}
	have.Recorded = append(have.Recorded, RecordingRule{Name: "llm:tokens:rate4s", Expr: `rate(vllm:generation_tokens_total[4s])`})
	jobs := map[string][]string{"vllm:generation_tokens_total": {"vllm"}, "http_requests_total": {"vllm", "fast"}, "slow_total": {"slow"},
		"pushed_total": {"gateway"}, "DCGM_FI_DEV_FB_USED": {"vllm", "gateway"}}
	const running = ` and on () vllm:num_requests_running > 0`
	for _, c := range []struct{ expr, severity, text, fix string }{
		{`rate(vllm:generation_tokens_total[4s]) < 1` + running, "critical",
			"never fires: rate needs two samples, and vllm:generation_tokens_total is scraped every 5s: the last 4s have at most one",
			"[20s]"},
		{`max_over_time(rate(vllm:generation_tokens_total[4s])[5m:]) > 1`, "critical", "never fires: rate needs two", "[20s]"},
		{`rate(vllm:generation_tokens_total[4s]) > 1 or rate(vllm:generation_tokens_total[5m]) > 1`, "warning",
			"one part never has a value", "[20s]"},
		{`rate(vllm:generation_tokens_total[8s]) < 1` + running, "warning",
			"has gaps: rate needs two samples, and vllm:generation_tokens_total is scraped every 5s: the last 8s do not always have two",
			"[20s]"},
		{`llm:tokens:rate4s > 1`, "critical", "have at most one, in the recording rule llm:tokens:rate4s", "[20s]"},
		{`increase(slow_total[1m]) > 0`, "warning", "has gaps: increase needs two", "[4m]"},
		{`deriv(slow_total[30s]) > 0`, "critical", "never fires: deriv", "[4m]"},
		{`rate(vllm:generation_tokens_total[10s]) < 1` + running, "", "", ""},
		{`rate(http_requests_total[4s]) > 1`, "", "", ""},  // some of its targets
		{`rate(pushed_total[1s]) > 1`, "", "", ""},         // unknown
		{`deriv(DCGM_FI_DEV_FB_USED[1s]) > 1`, "", "", ""}, // all of its jobs
		{`max_over_time(vllm:num_requests_waiting[4s]) > 5`, "", "", ""},
		{`changes((max(vllm:num_requests_waiting))[4s:1s]) > 5`, "", "", ""},
	} {
		in := []AlertingRule{{Name: "R", Expr: c.expr}}
		have.Labels = map[string]map[string][]string{}
		for _, l := range Lookups(in, have) {
			if slices.Contains(l.Labels, "job") {
				have.Labels[l.Metric] = map[string][]string{"job": jobs[l.Metric]}
			}
		}
		got := Lint(in, have)
		if len(got) != min(len(c.text), 1) || c.text != "" &&
			(string(got[0].Severity) != c.severity || !strings.Contains(got[0].Text, c.text) || !strings.Contains(got[0].Fix, c.fix)) {
			t.Errorf("%s: %+v\nwant %s, %q, %q", c.expr, got, c.severity, c.text, c.fix)
		}
	}
	if got := Lookups([]AlertingRule{{Expr: `rate(http_requests_total[5m]) > 1`}}, have); len(got) != 0 {
		t.Errorf("labels are asked for that nobody wants: %+v", got)
	}
}
