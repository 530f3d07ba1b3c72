package pagerduty

import (
	"strings"
	"testing"

	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
)

func TestFloodIsOnePageWithNotes(t *testing.T) {
	n, account := bench(t, pagerdutytest.Options{})
	f := state.Flood{Key: state.FloodPrefix + "1", FloodCount: state.FloodCount{Channel: state.ChannelPagerDuty, Waiting: 400,
		Severity: state.Critical, Causes: []state.CauseCount{{Cause: "kv_exhaustion", N: 312}, {Cause: "gpu_xid", N: 88}}}}
	show := func(waiting int) {
		t.Helper()
		f.Waiting = waiting
		f.Rev++
		for range 2 { // at least once
			ref, err := n.ShowFlood(t.Context(), f, "https://bot.example/incidents")
			if err != nil {
				t.Fatal(err)
			}
			if f.Told.Rev = f.Rev; waiting != 800 { // the outcome of the note is lost
				f.Told.Ref = ref
			}
		}
	}
	show(400)
	show(800)
	page := account.Incidents()[0]
	if page.Key != f.Key || page.Triggers != 1 || page.Severity != "critical" ||
		page.Summary != "400 more incidents: 312 kv_exhaustion, 88 gpu_xid" {
		t.Errorf("page %+v", page)
	}
	if notes := account.Notes(page.ID); len(notes) != 1 || !strings.Contains(notes[0], "800 more incidents") {
		t.Errorf("notes %q, want one with the new number", notes)
	}
	show(0)
	if all := account.Incidents(); len(all) != 1 || all[0].Status != "resolved" || all[0].Triggers != 1 {
		t.Errorf("pages %+v, want the one, resolved", all)
	}
}

// After a person has resolved the summary, the flood pages no person again.
func TestResolvedFloodIsNotPagedAgain(t *testing.T) {
	n, account := bench(t, pagerdutytest.Options{})
	f := state.Flood{Key: state.FloodPrefix + "1", Rev: 2, FloodCount: state.FloodCount{Waiting: 900},
		Told: state.Told{Rev: 1, Ref: map[string]string{refStatus: resolved}}}
	if _, err := n.ShowFlood(t.Context(), f, ""); err != nil || len(account.Events()) > 0 {
		t.Errorf("events %q, err %v, want none", account.Events(), err)
	}
}
