package casetest

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"paramedic/rules"
	"paramedic/rules/rulestest"
	"paramedic/state"
	"paramedic/state/fold"
)

// A network policy cuts Prometheus off from a namespace: from its workers, and from the router
// before them, about which the evidence has nothing. A target elsewhere is another trouble.
func TestRoutersScrapeJoinsTheGap(t *testing.T) {
	c := rulestest.MustLoad(t)
	data, err := os.ReadFile("testdata/cases/monitoring_gap_all_scrapes_fail.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string][]string{"llm": {"monitoring_gap"}, "shop": {"monitoring_gap", "unknown"}} {
		k := caseRun{cat: c, dir: "testdata/cases", result: &CaseResult{}, short: map[string]state.Worker{}}
		ar := txtar.Parse(data)
		if k.run(ar); len(k.result.Failures) > 0 {
			t.Fatal(k.result.Failures)
		}
		router := alertJSON{Labels: map[string]string{"alertname": "TargetDown", "severity": "warning", "namespace": namespace,
			"job": "router", "pod": "llm-router-6b8d5c9f7-x2q4z"}}
		for _, alerts := range [][]alertJSON{append([]alertJSON{router}, k.alerts(filesOf(ar))...), append(k.alerts(filesOf(ar)), router)} {
			s := &storm{t: t, board: fold.NewBoard(), now: rulestest.Now.Add(-time.Minute),
				fold: fold.Fold{Triage: rules.Rules{Catalog: c}, Routing: nobody{}, Settings: state.DefaultSettings()}}
			if got := s.run(alerts, k.ev); !slices.Equal(got, want) {
				t.Errorf("a router of %s: incidents %v, want %v", namespace, got, want)
			}
		}
	}
}

func filesOf(ar *txtar.Archive) map[string]string {
	out := map[string]string{}
	for _, f := range ar.Files {
		out[f.Name] = string(f.Data)
	}
	return out
}
