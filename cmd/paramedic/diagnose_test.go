package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// A pool is healthy when enough was measured to say so, and what was not measured is said with its reason.
func TestWhatWasNotMeasuredIsNotHealth(t *testing.T) {
	sample := func(signal string, v float64) state.Sample {
		return state.Sample{Signal: signal, Value: v, Entity: state.Entity{Model: "llama", Instance: "10.0.0.1:8000"}}
	}
	for _, c := range []struct {
		name    string
		samples []state.Sample
		want    rules.HealthStatus
		closing string
	}{
		{"an idle engine has no latency", []state.Sample{sample("kv_usage", 0), sample("requests_waiting", 0)}, rules.Healthy, "Nothing is wrong that could be seen, as far as it was measured."},
		{"hardly anything", []state.Sample{sample("requests_waiting", 0)}, rules.HealthUnknown, "Too little was measured to say that nothing is wrong."},
		{"one bad sign is enough", []state.Sample{sample("ttft_p99", 6)}, rules.HealthCritical, "No symptom of trouble yet, but not all is well: see the HEALTH of its pools."},
	} {
		f := foundFleet{Pools: judged(rules.Health("default", state.Evidence{Samples: c.samples})),
			Missing: []state.Missing{{Signal: "gpu_util", Reason: "no DCGM"}, {Signal: "ttft_p99", Reason: "no requests"}, {Signal: "error_rate", Reason: "no requests"}}}
		if len(f.Pools) != 1 || f.Pools[0].Overall != c.want {
			t.Errorf("%s: %+v", c.name, f.Pools)
		}
		if got := f.closing(); got != c.closing {
			t.Errorf("%s: %s", c.name, got)
		}
		if c.want == rules.Healthy {
			want := []string{"llama: not measured: latency, errors (no requests)", "llama: not measured: GPU (no DCGM)"}
			if d := cmp.Diff(want, f.unmeasured()); d != "" {
				t.Error(d)
			}
		}
	}
}

// What is not well and has no symptom yet is told with its reason, and with the known patterns that it shows.
func TestPathologiesAreToldBesideAPoolsHealth(t *testing.T) {
	catalog, err := loadRules("")
	if err != nil {
		t.Fatal(err)
	}
	var samples []state.Sample
	for signal, v := range map[string]float64{"kv_usage": 0.97, "preemption_rate": 0.4, "ttft_p95": 4, "ttft_p99": 4.5, "requests_waiting": 3, "error_rate": 0, "gpu_util": 80} {
		samples = append(samples, state.Sample{Signal: signal, Value: v, Unit: map[string]string{"kv_usage": "ratio", "preemption_rate": "1/s"}[signal], Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0", Model: "llama"}})
	}
	f := foundFleet{Pools: judged(catalog.Health("default", state.Evidence{Samples: samples}))}
	want := []string{"vllm: KV cache: full, and users feel it",
		"vllm: KV cache thrashes: vllm-0 preempts 0.4/s with its KV cache 97 % full, and first tokens take 4 s (p95). Looks like kv_exhaustion, kv_leak, long_context_burst, traffic_surge"}
	if d := cmp.Diff(want, f.notes()); d != "" {
		t.Error(d)
	}
	var out bytes.Buffer
	printMarkdown(&out, f)
	if !strings.Contains(out.String(), "KV cache thrashes: vllm\\-0 preempts") && !strings.Contains(out.String(), "KV cache thrashes: vllm-0 preempts") {
		t.Errorf("it is not in the report:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "| vllm | llama | 0 | critical | 97 % | 4.5 | 0 | 3 | 80 |") {
		t.Errorf("the report does not say how the pool is:\n%s", out.String())
	}
}

// What came from outside reads as text in Markdown, wherever it stands.
func TestMarkdownEscapesWhatCameFromOutside(t *testing.T) {
	const evil = "llama](http://evil.example) <img src=x onerror=alert(1)> | `x`"
	var out bytes.Buffer
	printMarkdown(&out, foundFleet{
		Unread: []engine.Problem{{URL: evil, Reason: evil}},
		Pools:  []rules.PoolHealth{{Pool: evil}},
		Verdict: []foundPool{{Diagnosis: state.Diagnosis{Title: evil, Cause: evil, Story: state.Story{What: evil, Why: evil},
			Findings: []state.Finding{{Text: evil}}, Missing: []string{evil},
			Anomalies: []state.Anomaly{{Text: evil}}, Correlations: []state.Correlation{{Text: evil}}}}},
	})
	for _, bad := range []string{"llama](", "<img", "> | `x`"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in:\n%s", bad, out.String())
		}
	}
	if n := strings.Count(out.String(), `llama\](http`); n < 10 {
		t.Errorf("the text is told %d times:\n%s", n, out.String())
	}
}
