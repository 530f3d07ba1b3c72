package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/cmd/paramedic/service"
	"paramedic/playbooks"
	"paramedic/rules/classify"
	"paramedic/rules/lint"
	"paramedic/rules/promql"
	"paramedic/state"
)

// packDir has the alert rules for Prometheus.
const packDir = "../../deploy/prometheus"

// A packRule is one rule of a pack, as Prometheus reads it.
type packRule struct {
	Record, Alert, Expr, For string
	KeepFiringFor            string `yaml:"keep_firing_for"`
	Labels, Annotations      map[string]string

	pack, group string
}

// packRules reads every pack. A key that Prometheus does not know fails the test.
func packRules(t *testing.T) []packRule {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(packDir, "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no packs in %s: %v", packDir, err)
	}
	var out []packRule
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var pack struct {
			Groups []struct {
				Name, Interval string
				Rules          []packRule
			}
		}
		decoder := yaml.NewDecoder(bytes.NewReader(raw))
		decoder.KnownFields(true)
		if err := decoder.Decode(&pack); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range pack.Groups {
			for _, r := range g.Rules {
				r.pack, r.group = strings.TrimSuffix(filepath.Base(file), ".yml"), g.Name
				out = append(out, r)
			}
		}
	}
	return out
}

// packAlerts returns the alerting rules of the packs.
func packAlerts(t *testing.T) []packRule {
	return slices.DeleteFunc(packRules(t), func(r packRule) bool { return r.Alert == "" })
}

func TestPackRulesParseAndNameTheirPlaybooks(t *testing.T) {
	library, err := playbooks.Load("")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range packRules(t) {
		if err := promql.ParsePromQL(r.Expr); err != nil {
			t.Errorf("%s: %s%s: %v", r.pack, r.Record, r.Alert, err)
		}
		if r.Alert == "" {
			if !strings.Contains(r.Record, ":") {
				t.Errorf("%s: the recorded name %s looks like an exported one: put level and operation around colons", r.pack, r.Record)
			}
			continue
		}
		if seen[r.Alert] {
			t.Errorf("%s stands in the packs twice", r.Alert)
		}
		seen[r.Alert] = true
		if s := state.Severity(r.Labels["severity"]); !slices.Contains([]state.Severity{state.Critical, state.Warning, state.Info}, s) {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s says too little", r.Alert)
		}
		book := r.Annotations["playbook"]
		if _, ok := library.Get(book); !ok {
			t.Errorf("%s names the playbook %q, which does not exist", r.Alert, book)
		}
		if want := "https://paramedic.example.com/playbooks/" + book; r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
	}
}

// meant has the symptom of every alert of the packs.
var meant = map[state.Symptom]string{
	"ttft_high": "VLLMTTFTHigh VLLMTTFTCritical SGLangTTFTHigh SGLangTTFTCritical DynamoTTFTHigh DynamoTTFTCritical TRTLLMTTFTHigh " +
		"TRTLLMTTFTCritical EPPTTFTHigh EPPTTFTCritical",
	"itl_high": "VLLMInterTokenLatencyHigh VLLMInterTokenLatencyCritical SGLangInterTokenLatencyHigh " +
		"SGLangInterTokenLatencyCritical DynamoInterTokenLatencyHigh DynamoInterTokenLatencyCritical TRTLLMTimePerTokenHigh " +
		"TRTLLMTimePerTokenCritical EPPInterTokenLatencyHigh EPPInterTokenLatencyCritical",
	"e2e_high": "VLLMLatencyHigh SGLangLatencyHigh DynamoLatencyHigh TRTLLMLatencyHigh EPPLatencyHigh",
	"error_rate": "VLLMErrorRateHigh VLLMErrorRateCritical DynamoErrorRateHigh DynamoErrorRateCritical DynamoRejections " +
		"TRTLLMErrorRateHigh TRTLLMErrorRateCritical EPPErrorRateHigh EPPErrorRateCritical",
	"throughput_drop": "VLLMEngineStalled VLLMThroughputDrop SGLangEngineStalled SGLangThroughputDrop DynamoStalled DynamoThroughputDrop " +
		"TRTLLMEngineStalled TRTLLMThroughputDrop",
	"kv_pressure": "VLLMKVCachePressure VLLMKVHeldWhileIdle SGLangTokenUsageHigh SGLangKVHeldWhileIdle DynamoKVCachePressure " +
		"TRTLLMKVCachePressure EPPKVCachePressure",
	"preemptions": "VLLMPreemptionStorm VLLMPreemptionsSlowUsers SGLangRetractions TRTLLMPausedRequests",
	"queue_buildup": "VLLMQueueBuildup VLLMQueueSkew VLLMConcurrencyCapped SGLangQueueBuildup SGLangQueueSkew DynamoQueueBuildup " +
		"TRTLLMQueueBuildup EPPQueueBuildup EPPQueueSkew",
	"queue_time_high": "VLLMQueueTimeHigh SGLangQueueTimeHigh TRTLLMQueueTimeHigh EPPQueueTimeHigh",
	"prefix_hit_low": "VLLMPrefixCacheHitsDropped SGLangCacheHitsDropped DynamoPrefixHitsDropped TRTLLMCacheHitsDropped " +
		"EPPPrefixHitsDropped",
	"aborts":  "VLLMAborts SGLangAborts DynamoCancellations",
	"quality": "VLLMTruncatedAnswers",
	"target_down": "VLLMMetricsAbsent DCGMMetricsAbsent InferenceTargetDown SGLangMetricsAbsent DynamoMetricsAbsent " +
		"TRTLLMMetricsAbsent EPPMetricsAbsent EPPStaleEndpoints",
	"no_endpoints":    "EPPNoReadyEndpoints",
	"gpu_hardware":    "GPUXidFatal GPUXidError GPURowRemapFailure",
	"gpu_throttled":   "GPUThrottled GPUClockBelowPeers",
	"gpu_memory_high": "GPUMemoryGrows",
	"gpu_idle":        "GPUIdle",
	"worker_down": "InferencePoolDown InferenceReplicasMissing InferencePodCannotStart InferencePodUnschedulable " +
		"InferenceNodeNotReady InferenceNodePressure DynamoMigrations",
	"oom":           "InferenceContainerOOMKilled",
	"crash_loop":    "InferenceContainerCrashLooping",
	"rollout_stuck": "InferenceRolloutStuck",
	"slo_burn":      "LLMErrorBudgetFastBurnCritical LLMErrorBudgetBurnCritical LLMErrorBudgetBurnHigh LLMErrorBudgetBurnLow",
	"memory_growth": "InferenceMemoryWillRunOut InferenceMemoryNearLimit",
}

// The bot classifies each rule of its own packs by its name, and by its expression if a user
// renamed it. It takes none for a rule that fires on healthy engines.
func TestPackAlertsMeanTheirSymptoms(t *testing.T) {
	catalog, err := service.LoadRules("")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]state.Symptom{}
	for symptom, names := range meant {
		for _, name := range strings.Fields(names) {
			want[name] = symptom
		}
	}
	for _, r := range packAlerts(t) {
		symptom, ok := want[r.Alert]
		if !ok {
			t.Errorf("%s: this test does not know what it is meant to say", r.Alert)
			continue
		}
		delete(want, r.Alert)
		source := "http://prometheus:9090/graph?g0.expr=" + url.QueryEscape(r.Expr) + "&g0.tab=1"
		for name, by := range map[string]string{r.Alert: "name", "Renamed": "metrics"} {
			alert := state.Alert{Labels: map[string]string{"alertname": name, "severity": r.Labels["severity"]}, GeneratorURL: source}
			s := classify.Classify(catalog, alert, "default")
			if s.Symptom != symptom || s.By != by || s.Severity != state.Severity(r.Labels["severity"]) {
				t.Errorf("%s, called %s: %s (%s, %s), want %s by %s", r.Alert, name, s.Symptom, s.By, s.Severity, symptom, by)
			}
			if s.Hints["benign"] != "" {
				t.Errorf("%s, called %s, is taken for benign: %v", r.Alert, name, s.Hints)
			}
		}
	}
	for name := range want {
		t.Errorf("%s is in no pack", name)
	}
}

// Rules page for user impact, and for faults on which a restart must not land.
func TestPacksPageOnUserImpact(t *testing.T) {
	for _, r := range packAlerts(t) {
		pages := r.Labels["severity"] == "critical"
		felt := strings.HasSuffix(r.Alert, "Critical") || strings.HasSuffix(r.Alert, "Stalled") ||
			slices.Contains([]string{"InferencePoolDown", "GPUXidFatal", "EPPNoReadyEndpoints"}, r.Alert)
		if pages != felt {
			t.Errorf("%s has severity %s", r.Alert, r.Labels["severity"])
		}
	}
}

// exported returns the metrics that current versions of all engines, exporters and routers export,
// by file.
func exported(t *testing.T) lint.Exported {
	t.Helper()
	raw, err := os.ReadFile("testdata/packs/exported.txt")
	if err != nil {
		t.Fatal(err)
	}
	have := lint.Exported{Metrics: map[string]bool{}, Router: true}
	for line := range strings.Lines(string(raw)) {
		line, _, _ = strings.Cut(line, "#")
		for name := range strings.FieldsSeq(line) {
			if base, histogram := strings.CutSuffix(name, "*"); histogram {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					have.Metrics[base+suffix] = true
				}
				continue
			}
			have.Metrics[name] = true
		}
	}
	return have
}

// `paramedic check --online` finds nothing on a fleet with the packs.
func TestLinterFindsNothingInThePacks(t *testing.T) {
	have := exported(t)
	var alerts, records []lint.AlertingRule
	for _, r := range packRules(t) {
		lasts, err := time.ParseDuration(strings.ReplaceAll(r.For+"0s", "d", "h"))
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		rule := lint.AlertingRule{Group: r.group, Name: r.Alert + r.Record, Expr: r.Expr, For: lasts}
		if r.Record == "" {
			alerts = append(alerts, rule)
		} else {
			records = append(records, rule)
			have.Metrics[r.Record] = true
			have.Recorded = append(have.Recorded, lint.RecordingRule{Name: r.Record, Expr: r.Expr, Labels: r.Labels})
		}
	}
	for _, f := range append(lint.Lint(alerts, have), lintQueries(records, have)...) {
		t.Errorf("%s: %s: %s (%s)", f.Severity, f.Rule, f.Text, f.Fix)
	}
}

// lintQueries lints queries that are no alert rules. They need no comparison.
func lintQueries(in []lint.AlertingRule, have lint.Exported) []lint.Finding {
	return slices.DeleteFunc(lint.Lint(in, have),
		func(f lint.Finding) bool { return strings.HasPrefix(f.Text, "always fires: there is no comparison") })
}

// Every rule needs a test in which it fires, and one in which it does not. promtool runs them: make
// e2e.
func TestPackAlertsAreTestedBothWays(t *testing.T) {
	type tally struct{ fires, quiet int }
	tested := map[string]map[string]*tally{}
	for _, r := range packAlerts(t) {
		if tested[r.pack] == nil {
			tested[r.pack] = map[string]*tally{}
		}
		tested[r.pack][r.Alert] = &tally{}
	}
	for pack, alerts := range tested {
		raw, err := os.ReadFile(filepath.Join(packDir, "tests", pack+"_test.yml"))
		if err != nil {
			t.Error(err)
			continue
		}
		var file struct {
			Tests []struct {
				Rules []struct {
					Alert string `yaml:"alertname"`
					Want  []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal(raw, &file); err != nil {
			t.Errorf("%s: %v", pack, err)
		}
		for _, test := range file.Tests {
			for _, r := range test.Rules {
				switch seen := alerts[r.Alert]; {
				case seen == nil:
					t.Errorf("%s is tested and does not exist", r.Alert)
				case len(r.Want) > 0:
					seen.fires++
				default:
					seen.quiet++
				}
			}
		}
		for name, seen := range alerts {
			if seen.fires == 0 || seen.quiet == 0 {
				t.Errorf("%s fires in %d tests and stays quiet in %d", name, seen.fires, seen.quiet)
			}
		}
	}
}

// A target must be an edge of a histogram. Between two edges, the number of requests within it is
// unknown.
func TestObjectiveTargetsAreBucketEdges(t *testing.T) {
	metrics := map[string]string{
		"vllm ttft": "vllm:time_to_first_token_seconds", "vllm itl": "vllm:inter_token_latency_seconds",
		"sglang ttft": "sglang:time_to_first_token_seconds", "sglang itl": "sglang:inter_token_latency_seconds",
		"trtllm ttft": "trtllm_time_to_first_token_seconds", "trtllm itl": "trtllm_time_per_output_token_seconds",
		"dynamo ttft": "dynamo_frontend_time_to_first_token_seconds", "dynamo itl": "dynamo_frontend_inter_token_latency_seconds",
		"llm-d ttft": "llm_d_epp_request_ttft_seconds", "llm-d itl": "llm_d_epp_request_streaming_itl_seconds",
		"vllm e2e": "vllm:e2e_request_latency_seconds", "sglang e2e": "sglang:e2e_request_latency_seconds",
		"trtllm e2e": "trtllm_e2e_request_latency_seconds",
		"dynamo e2e": "dynamo_frontend_request_duration_seconds", "llm-d e2e": "llm_d_epp_request_duration_seconds",
	}
	// The buckets of a Dynamo frontend before and after they changed. It must have one target of
	// each use case: with two, answers would count twice.
	releases := map[string][]string{
		"dynamo itl": {"0.0019 0.0035 0.0067 0.013 0.024 0.045 0.084 0.16 0.3 0.56 1.1 2",
			"0.0018 0.0033 0.0059 0.011 0.02 0.035 0.064 0.12 0.21 0.38 0.69 1.2 2.3 4.1 7.4 13 24 44 80"},
		"dynamo e2e": {"1.9 3.4 6.3 12 22 40 75 140 260", "2 4 8 16 32 64 130 260 510"},
	}
	promised := map[string]map[string][]string{}
	for _, r := range packRules(t) {
		if r.Record != "llm_slo:target" {
			continue
		}
		of := r.Labels["engine"] + " " + r.Labels["sli"]
		if promised[of] == nil {
			promised[of] = map[string][]string{}
		}
		promised[of][r.Labels["use_case"]] = append(promised[of][r.Labels["use_case"]], r.Labels["le"])
		expr := metrics[of] + `_bucket{le="` + r.Labels["le"] + `"} < 1`
		for _, f := range lint.Lint([]lint.AlertingRule{{Name: of, Expr: expr}}, lint.Exported{}) {
			t.Errorf("%s for %s: %s: %s", of, r.Labels["use_case"], f.Text, f.Fix)
		}
	}
	for of := range metrics {
		if len(promised[of]) != 5 {
			t.Errorf("%s has targets for %d use cases, want 5", of, len(promised[of]))
		}
		for useCase, targets := range promised[of] {
			if len(targets) != max(len(releases[of]), 1) {
				t.Errorf("%s for %s: %v for %d releases", of, useCase, targets, max(len(releases[of]), 1))
			}
			for _, edges := range releases[of] {
				if has := slices.DeleteFunc(strings.Fields(edges),
					func(edge string) bool { return !slices.Contains(targets, edge) }); len(has) != 1 {
					t.Errorf("%s for %s: of %v the release with %s has %v, want one", of, useCase, targets, edges, has)
				}
			}
		}
	}
}

// The Prometheus operator reads the same rules as Kubernetes objects.
func TestGeneratedPrometheusRulesAreCurrent(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(packDir, "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(packDir, "self", "paramedic.yml")) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		if name == "paramedic" {
			name = "self"
		}
		from, err := filepath.Rel(packDir, file)
		if err != nil {
			t.Fatal(err)
		}
		object := prometheusRule(name, filepath.ToSlash(from), string(raw))
		current(t, filepath.Join(packDir, "operator", name+".yaml"), []byte(object))
		var parsed struct {
			Kind string
			Spec struct{ Groups []any }
		}
		if err := yaml.Unmarshal([]byte(object), &parsed); err != nil || parsed.Kind != "PrometheusRule" || len(parsed.Spec.Groups) == 0 {
			t.Errorf("%s as a PrometheusRule: %v", name, err)
		}
	}
}

// prometheusRule returns a pack as a Kubernetes object, with its comments.
func prometheusRule(name, from, pack string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made from ../%s by make generate.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  "+
		"name: paramedic-%s\n", from, name)
	b.WriteString("  labels: {app.kubernetes.io/part-of: paramedic} # add those that your Prometheus selects rules by " +
		"(ruleSelector)\nspec:\n")
	for line := range strings.Lines(pack) {
		if line != "\n" {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	return b.String()
}
