package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/scrape"
	"paramedic/rules/lint"
)

// A real fleet lacks some engines, and exports some metrics only after an event. The linter then
// reports missing engines or parts of them. It reports no misspelt names, and nothing about an
// engine's own pack.
func TestLinterAcceptsThePacksOnEveryEngine(t *testing.T) {
	own := map[engine.Kind]string{engine.VLLM: "vllm", engine.SGLang: "sglang", engine.Dynamo: "dynamo", engine.TRTLLM: "trtllm"}
	for _, kind := range engine.Kinds() {
		have := labNames(t, kind)
		var alerts []lint.AlertingRule
		packs := map[string]string{}
		for _, r := range packRules(t) {
			if r.Record != "" {
				have.Recorded = append(have.Recorded, lint.RecordingRule{Name: r.Record, Expr: r.Expr, Labels: r.Labels})
				continue
			}
			packs[r.Alert] = r.pack
			alerts = append(alerts, lint.AlertingRule{Group: r.group, Name: r.Alert, Expr: r.Expr})
		}
		for _, f := range lint.Lint(alerts, have) {
			missing := strings.Contains(f.Text, "does not fire: there are no ") ||
				strings.Contains(f.Text, "is not exported here, but other ")
			alien := packs[f.Rule] != own[kind] && !slices.Contains([]string{"kubernetes", "slo"}, packs[f.Rule])
			// from a router that uses cache state, which the lab's router does not
			routed := strings.Contains(f.Text, "dynamo_component_router_kv_hit_rate")
			if !missing || !alien && !routed {
				t.Errorf("%s: %s of %s: %s: %s (%s)", kind, f.Rule, packs[f.Rule], f.Severity, f.Text, f.Fix)
			}
		}
	}
}

// labNames returns the metric names on the pages of a simulated fleet after one minute.
func labNames(t *testing.T, kind engine.Kind) lint.Exported {
	t.Helper()
	fleet, err := lab.NewFleet(lab.Config{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	fleet.Advance(fleet.Start().Add(time.Minute))
	have := lint.Exported{Metrics: map[string]bool{"up": true}}
	for _, target := range fleet.Targets() {
		w := httptest.NewRecorder()
		scrape.Handler(fleet, scrape.Config{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target.Path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", target.Path, w.Code)
		}
		for line := range strings.Lines(w.Body.String()) {
			if name, _, _ := strings.Cut(line, " "); !strings.HasPrefix(line, "#") {
				name, _, _ = strings.Cut(name, "{")
				have.Metrics[name] = true
			}
		}
	}
	return have
}
