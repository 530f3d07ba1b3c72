package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/health"
	"paramedic/state"
)

// A pool that is unhealthy without a symptom is listed with the reason and its pathologies.
func TestPathologiesAreListedBesidePoolHealth(t *testing.T) {
	catalog, err := service.LoadRules("")
	if err != nil {
		t.Fatal(err)
	}
	var samples []state.Sample
	for signal, v := range map[string]float64{"kv_usage": 0.97, "preemption_rate": 0.4, "ttft_p95": 4, "ttft_p99": 4.5,
		"requests_waiting": 3, "error_rate": 0, "gpu_util": 80} {
		samples = append(samples, state.Sample{Signal: signal, Value: v, Unit: map[string]string{"kv_usage": "ratio",
			"preemption_rate": "1/s"}[signal], Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0", Model: "llama"}})
	}
	f := survey.Report{Pools: service.MarkUnmeasured(health.OfCatalog(catalog, "default", state.Evidence{Samples: samples}))}
	want := []string{"vllm: KV cache: full, and users feel it",
		"vllm: KV cache thrashes: vllm-0 preempts 0.4/s, KV cache 97 % full, time to first token p95 4 s. Looks like " +
			"kv_exhaustion, kv_leak, long_context_burst, traffic_surge"}
	if d := cmp.Diff(want, f.Notes()); d != "" {
		t.Error(d)
	}
	var out bytes.Buffer
	printMarkdown(&out, f)
	if !strings.Contains(out.String(), "KV cache thrashes: vllm\\-0 preempts") &&
		!strings.Contains(out.String(), "KV cache thrashes: vllm-0 preempts") {
		t.Errorf("it is not in the report:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "| vllm | llama | 0 | critical | 97 % | 4.5 | 0 | 3 | 80 |") {
		t.Errorf("the report does not say how the pool is:\n%s", out.String())
	}
}

// Foreign text is escaped everywhere in Markdown.
func TestMarkdownEscapesForeignText(t *testing.T) {
	const evil = "llama](http://evil.example) <img src=x onerror=alert(1)> | `x`"
	var out bytes.Buffer
	printMarkdown(&out, survey.Report{
		Unread: []engine.Problem{{URL: evil, Reason: evil}},
		Pools:  []health.Pool{{Pool: evil}},
		Verdict: []survey.PoolReport{{Diagnosis: state.Diagnosis{Title: evil, Cause: evil, Story: state.Story{What: evil, Why: evil},
			Findings: []state.Finding{{Text: evil}}, Missing: []string{evil},
			Chain: []state.Link{{Role: state.LinkCause, Text: evil}}, Anomalies: []state.Anomaly{{Text: evil}}, Correlations: []state.Correlation{{Text: evil}}}}},
	})
	for _, bad := range []string{"llama](", "<img", "> | `x`"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in:\n%s", bad, out.String())
		}
	}
	if n := strings.Count(out.String(), `llama\](http`); n < 11 {
		t.Errorf("the text is told %d times:\n%s", n, out.String())
	}
}
