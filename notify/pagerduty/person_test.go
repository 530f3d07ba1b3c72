package pagerduty

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
)

// needing returns the sample incident with a run that has needed a person for some minutes.
func needing(t *testing.T, minutes int) notify.Message {
	f := notifytest.Facts(t)
	f.Incident.Severity, f.Incident.AckedAt = state.Warning, time.Time{}
	f.Incident.HandedAt = f.Incident.StartedAt.Add(time.Duration(minutes) * time.Minute)
	f.Actions[0].State, f.Actions[0].Reason = state.NeedsHuman, "inconclusive, the change is kept; to undo it by hand: kubectl patch"
	f.Actions[0].Verify = state.Verification{}
	return notify.Compose(f)
}

func TestRunThatNeedsAPersonPagesOnce(t *testing.T) {
	for _, benign := range []bool{false, true} {
		n, s := bench(t, pagerdutytest.Options{RoutingKey: key})
		n.cfg.APITokenFile, n.cfg.From = "", ""
		var ref map[string]string
		for range 3 {
			m := needing(t, 5)
			if benign {
				m.Cause = state.BenignAlert
			}
			var err error
			if ref, err = n.Show(t.Context(), m, state.Told{Ref: ref}, true); err != nil {
				t.Fatal(err)
			}
		}
		m := needing(t, 5)
		if got := s.Events(); !slices.Equal(got, []string{"trigger " + string(m.Incident)}) || len(s.Changes()) != 0 {
			t.Fatalf("events %q, changes %q", got, s.Changes())
		}
		page, o := s.Incidents()[0], m.Actions[0]
		if want := "first aid needs a person: " + o.Change + " on " + o.Target; !strings.Contains(page.Summary, want) ||
			page.Severity != "error" {
			t.Errorf("%s: %q lacks %q", page.Severity, page.Summary, want)
		}
		if aid := page.Details["6 first aid"].([]any)[0].(string); !strings.Contains(aid, "kubectl patch") ||
			!strings.Contains(aid, "paramedic cancel "+string(o.ID)) {
			t.Errorf("%q", aid)
		}
	}
}

// The page is open already: it gets the report, and pages no person again.
func TestOpenPageReportsRunThatNeedsAPerson(t *testing.T) {
	for _, notes := range []bool{true, false} {
		n, s := bench(t, pagerdutytest.Options{RoutingKey: key, Token: "token", From: []string{"bot@example.com"}})
		if !notes {
			n.cfg.APITokenFile, n.cfg.From = "", ""
		}
		ref := causes(t, n, "kv_exhaustion")
		for _, minutes := range []int{5, 5, 90, 90} { // two runs, one after the other
			m := needing(t, minutes)
			m.Cause, m.Diagnosed = "kv_exhaustion", true
			var err error
			if ref, err = n.Show(t.Context(), m, state.Told{Ref: ref}, true); err != nil {
				t.Fatal(err)
			}
		}
		told := s.Changes()
		if notes {
			told = s.Notes("P1")
		}
		if len(told) != 2 || len(s.Events()) != 1 || !strings.Contains(told[0], "needs a person") {
			t.Errorf("told %q, events %q", told, s.Events())
		}
	}
}
