package casetest

import (
	"fmt"
	"testing"
	"time"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// An incident whose alerts are resolved is held open for returning alerts. An alert of its pool
// that its cause does not explain opens a new incident meanwhile. An alert that had fired before
// reopens the held one.
func TestUnrelatedAlertOpensNewIncidentDuringHold(t *testing.T) {
	c := rulestest.MustLoad(t)
	s := newStorm(t, c)
	send := func(alerts []alertJSON, status state.AlertStatus, at time.Time) {
		for _, a := range alerts {
			s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{
				Fingerprint: state.Fingerprint(fmt.Sprint(a.Labels)), Status: status, Labels: a.Labels, Annotations: a.Annotations,
				GeneratorURL: a.GeneratorURL, StartsAt: at, EndsAt: s.now}}}})
		}
	}
	look := func(ev state.Evidence) string {
		for _, in := range s.open() {
			ev.Incident, ev.At = in.ID, s.now
			s.apply(state.Input{Evidence: &ev})
		}
		out := ""
		for _, in := range s.open() {
			out += fmt.Sprintf("%s is %s; ", in.Cause(), in.Status)
		}
		return out
	}
	surge, ofSurge := loadCase(t, c, "traffic_surge_fills_the_cache")
	quality, ofQuality := loadCase(t, c, "quality_regression_burns_the_budget")
	began := s.now
	send(surge, state.Firing, began)
	if got, want := look(ofSurge), "traffic_surge is open; "; got != want {
		t.Fatalf("at first: %s", got)
	}
	s.now = s.now.Add(5 * time.Minute)
	send(surge, state.Resolved, began)
	s.now = s.now.Add(30 * time.Second)
	send(quality, state.Firing, s.now)
	if got, want := look(ofQuality), "traffic_surge is monitoring; quality_regression is open; "; got != want {
		t.Errorf("within the hold came another trouble: %s want %s", got, want)
	}
	s.now = s.now.Add(10 * time.Second)
	send(surge[:1], state.Firing, s.now)
	if got, want := look(ofSurge), "traffic_surge is open; quality_regression is open; "; got != want {
		t.Errorf("the first came back: %s want %s", got, want)
	}
}
