package casetest

import (
	"slices"
	"testing"

	"paramedic/rules/rulestest"
)

// A network policy cuts Prometheus off from a namespace: from its workers, and from the router
// before them, about which the evidence has nothing. A target elsewhere is another trouble.
func TestRoutersScrapeJoinsTheGap(t *testing.T) {
	c := rulestest.MustLoad(t)
	cut, ev := loadCase(t, c, "monitoring_gap_all_scrapes_fail")
	for namespace, want := range map[string][]string{"llm": {"monitoring_gap"}, "shop": {"monitoring_gap", "unknown"}} {
		router := alertJSON{Labels: map[string]string{"alertname": "TargetDown", "severity": "warning", "namespace": namespace,
			"job": "router", "pod": "llm-router-6b8d5c9f7-x2q4z"}}
		for _, alerts := range [][]alertJSON{slices.Concat([]alertJSON{router}, cut), slices.Concat(cut, []alertJSON{router})} {
			if got := newStorm(t, c).run(alerts, ev); !slices.Equal(got, want) {
				t.Errorf("a router of %s: incidents %v, want %v", namespace, got, want)
			}
		}
	}
}
