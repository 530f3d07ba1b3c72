package catalog_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

func TestChainProblemsNameTheirLine(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `causes:
  - id: mine
    title: Mine
    scope: pool
    chain:
      - {role: mechanism, signal: kv_usage, moves: up}
      - {role: cuase, signal: kv_usage, moves: up}
      - {role: symptom, signal: ttft_p59, or: [ttft_p95, no_such], moves: up}
      - {role: cause, signal: arrival_rate, moves: up}
      - {role: symptom, signal: ttft_p95, moves: upwards}
      - {role: symptom, signal: pod_restarts, or: [pod_last_error], moves: up}
      - {role: symptom, moves: up}
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a}]
`)
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimPrefix(p.String(), filepath.Join(dir, "mine.yaml")+":"))
	}
	want := []string{
		"6: a chain begins with its cause, not with a mechanism",
		`7: role "cuase" is none of cause, mechanism, symptom`,
		`8: no signal "ttft_p59"; did you mean ttft_p50?`,
		`8: no signal "no_such"; there are`,
		"9: a cause stands after a symptom: write causes first, then mechanisms, then symptoms",
		`10: moves "upwards" is none of up, down, changed`,
		"11: a word cannot go up (pod_last_error): write moves: changed",
		"12: a link of a chain needs signal: The signal that moves.",
	}
	if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryCauseHasAChain(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, cause := range c.Causes() {
		if len(cause.Chain) == 0 || cause.Chain[0].Role != state.LinkCause {
			t.Errorf("cause %s has the chain %+v", cause.ID, cause.Chain)
		}
		for _, l := range cause.Chain {
			for _, id := range l.Signals {
				if !c.UsedSignals()[id] {
					t.Errorf("no view has %s, a link of %s", id, cause.ID)
				}
			}
		}
	}
}

// A user's cause may have a chain, and one without is valid.
func TestOwnCauseMayHaveAChain(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `causes:
  - id: mine
    title: Mine
    scope: pool
    chain:
      - {role: cause, signal: ttft_p99, or: [e2e_p95], moves: changed}
    evidence: [{when: kv_usage.max > 0.5, weight: 1, text: a}]
`)
	c, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	cause, _ := c.Cause("mine")
	if l := cause.Chain[0]; l.Role != state.LinkCause || !slices.Equal(l.Signals, []string{"ttft_p99", "e2e_p95"}) || l.Moves != catalog.MovesAny {
		t.Errorf("%+v", cause.Chain)
	}
	if !c.UsedSignals()["e2e_p95"] {
		t.Error("views leave out the signals of a chain")
	}
}
