package diagnose

import (
	"slices"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A verdict stands while its signals cannot be read. A signal of "this or that" that was never
// measured had no part in it.
func TestFindingsListOnlyMeasuredSignals(t *testing.T) {
	c := rulestest.MustLoad(t)
	v := evidence.ArrangeScope(&state.Incident{}, state.Scope{}, &state.Evidence{At: rulestest.Now, Samples: []state.Sample{
		{Signal: "requests_waiting", Entity: state.Entity{Pod: "p-0"}, Value: 1, At: rulestest.Now}}}, c)
	w := causeScore{
		seen: []observation{{observed: observed{Signal: "requests_waiting", reads: []string{"itl_p95", "requests_waiting"}}, of: evidence.Words{View: v}}}}
	if got := w.findings(c, rulestest.Now)[0].Reads; !slices.Equal(got, []string{"requests_waiting"}) {
		t.Errorf("it reads %v", got)
	}
}

// A finding shows the usual values of its signal.
func TestFindingShowsUsualValues(t *testing.T) {
	c := rulestest.MustLoad(t)
	hour, week, z := 0.0, 1.0, 33.0
	v := evidence.ArrangeScope(&state.Incident{}, state.Scope{}, &state.Evidence{At: rulestest.Now, Samples: []state.Sample{
		{Signal: "requests_waiting", Entity: state.Entity{Pod: "p-0"}, Value: 33, At: rulestest.Now,
			Baseline: &hour, DayAgo: &hour, WeekAgo: &week, Z: &z}}}, c)
	w := causeScore{seen: []observation{{observed: observed{Signal: "requests_waiting"}, of: evidence.Words{View: v, Group: v.Whole()}}}}
	f := w.findings(c, rulestest.Now)[0]
	if f.WeekAgo == nil || *f.WeekAgo != 1 || f.DayAgo == nil || *f.DayAgo != 0 || f.Z == nil || *f.Z != 33 {
		t.Errorf("the finding on the queue: %+v", f)
	}
}
