package casetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

func TestEveryCauseHasCaseAndPlaybook(t *testing.T) {
	c := rulestest.MustLoad(t)
	results, err := RunCases(c, "testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	if problems := Partners(c, results, func(string) bool { return true }); len(problems) > 0 {
		t.Errorf("%s", strings.Join(problems, "\n"))
	}
	if problems := Partners(c, nil, func(string) bool { return false }); len(problems) != 2*len(c.Causes()) {
		t.Errorf("%d complaints without cases and playbooks, want two for each of %d causes", len(problems), len(c.Causes()))
	}
}

func TestCases(t *testing.T) {
	c := rulestest.MustLoad(t)
	results, err := RunCases(c, "testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]int{}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			for _, f := range r.Failures {
				t.Error(f)
			}
		})
		for _, w := range r.Want {
			wanted[w]++
		}
	}
	for _, cause := range c.Causes() {
		if n := wanted[string(cause.ID)]; n < 4 {
			t.Errorf("%d cases want %s; four are the least: plain, partial evidence, and look-alikes", n, cause.ID)
		}
	}
}

// Of two look-alikes, each is named in a case where the other one is the obvious guess.
func TestLookAlikesAreDistinguishedBothWays(t *testing.T) {
	c := rulestest.MustLoad(t)
	results, err := RunCases(c, "testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[ToldApart]bool{}
	for _, r := range results {
		for _, n := range r.ToldApart {
			shown[n] = shown[n] || r.OK()
		}
	}
	wanted := map[ToldApart]bool{}
	for _, cause := range c.Causes() {
		for _, l := range cause.LookAlikes {
			wanted[ToldApart{string(cause.ID), string(l.Cause)}] = true
			wanted[ToldApart{string(l.Cause), string(cause.ID)}] = true
		}
	}
	var missing []string
	for w := range wanted {
		if !shown[w] {
			missing = append(missing, fmt.Sprintf("cause %s, looks_like %s", w.Cause, w.From))
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("%d of %d look-alikes have no case that holds:\n%s", len(missing), len(wanted), strings.Join(missing, "\n"))
	}
}

// A symptom that lasted for minutes settles more than the first evidence: two cases with the same
// evidence differ in the age of their alert.
func TestSettledEvidencePersists(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := firstIncident(t, c, "testdata/cases/kv_leak_one_left_running.txtar")
	settled := func() bool {
		return slices.ContainsFunc(diagnose.Diagnose(c, k.in, &k.ev, rulestest.Now).Findings,
			func(f state.Finding) bool { return slices.Contains(f.Settles, "engine_hang") })
	}
	if !settled() {
		t.Error("minutes of one request in a full cache do not rule out a hang")
	}
	for i := range k.in.Symptoms {
		k.in.Symptoms[i].First = rulestest.Now.Add(-2 * time.Minute)
	}
	if settled() {
		t.Error("two minutes rule out a hang")
	}
}

// A dead node's pods look ready for up to a minute and a half.
func TestGapWaitsForWordOfTheNode(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := firstIncident(t, c, "testdata/cases/monitoring_gap_outlasts_a_dead_node.txtar")
	for i := range k.in.Symptoms {
		k.in.Symptoms[i].First = rulestest.Now.Add(-20 * time.Second)
	}
	if d := diagnose.Diagnose(c, k.in, &k.ev, rulestest.Now); d.Cause != state.Unknown {
		t.Errorf("20 seconds after the alert: %s", d.Cause)
	}
}
