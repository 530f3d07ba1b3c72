package fold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// impactTriage takes the impact from the samples of the signal "impact". It names no cause.
type impactTriage struct{ simpleTriage }

func (impactTriage) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	return state.Diagnosis{Cause: state.Unknown, At: now, Title: "no idea", Scope: in.Scope, Impact: state.Impact(ev.Samples[0].Text)}
}

// impactRouting pages unless the impact is none.
type impactRouting struct{ simpleRouting }

func (r impactRouting) Channels(in *state.Incident) []state.Channel {
	out := r.simpleRouting.Channels(in)
	if in.Diagnosis.Impact != state.ImpactNone {
		return out
	}
	return slices.DeleteFunc(out, func(c state.Channel) bool { return c == state.ChannelPagerDuty && in.Told.Rev(c) == 0 })
}

func newImpactStory(t *testing.T) *story {
	s := newStory(t)
	s.fold.Triage, s.fold.Routing = impactTriage{}, impactRouting{}
	s.alert(state.Firing, "Odd", "odd", "critical", "llama")
	return s
}

func (s *story) impact(i state.Impact) {
	s.t.Helper()
	s.apply(state.Input{Evidence: &state.Evidence{Incident: s.onlyIncident().ID, At: s.now,
		Samples: []state.Sample{{Signal: "impact", Text: string(i)}}}})
}

// pages counts the effects that want a page.
func (s *story) pages() int {
	n := 0
	for _, id := range s.effects(state.EffectNotify) {
		if strings.HasPrefix(id, "notify:pagerduty:") {
			n++
		}
	}
	return n
}

// An undiagnosed incident of healthy users posts, and pages once users suffer or cannot be seen.
func TestPageWaitsUntilUsersSuffer(t *testing.T) {
	for _, worse := range []state.Impact{state.ImpactFelt, state.ImpactUnknown} {
		s := newImpactStory(t)
		s.wait(12 * time.Second)
		s.impact(state.ImpactNone)
		s.wait(2 * time.Minute)
		if got := s.effects(state.EffectNotify); s.pages() != 0 || len(got) != 2 {
			t.Fatalf("while users are well: %v", got)
		}
		s.deliver(state.EffectNotify)
		s.impact(worse)
		if s.pages() != 1 {
			t.Fatalf("%s: %v", worse, s.effects(state.EffectNotify))
		}
		s.deliver(state.EffectNotify)
		for _, i := range []state.Impact{state.ImpactNone, worse} {
			s.wait(time.Minute)
			s.impact(i)
		}
		if s.pages() != 0 {
			t.Errorf("%s: paged twice: %v", worse, s.effects(state.EffectNotify))
		}
		notes := 0
		for _, e := range s.entries {
			if e.Kind == "note" && e.Quiet && strings.Contains(e.Text, "users") {
				notes++
			}
		}
		if notes != 3 {
			t.Errorf("%s: %d changes of the impact are on the record, want 3", worse, notes)
		}
	}
}

// Without a verdict the page does not wait for evidence.
func TestPageWithoutVerdictComesInTime(t *testing.T) {
	s := newImpactStory(t)
	s.wait(29 * time.Second)
	if s.pages() != 0 {
		t.Error("paged before its time")
	}
	s.wait(time.Second)
	if s.pages() != 1 {
		t.Errorf("not paged: %v", s.effects(state.EffectNotify))
	}
}

// A pool that drains after its last alert measures nothing, and pages none.
func TestDrainedPoolDoesNotPage(t *testing.T) {
	s := newImpactStory(t)
	s.wait(12 * time.Second)
	s.impact(state.ImpactNone)
	s.alert(state.Resolved, "Odd", "odd", "critical", "llama")
	s.impact(state.ImpactUnknown)
	if s.pages() != 0 || s.onlyIncident().Diagnosis.Impact != state.ImpactNone {
		t.Errorf("%v, impact %s", s.effects(state.EffectNotify), s.onlyIncident().Diagnosis.Impact)
	}
	s.alert(state.Firing, "Odd", "odd", "critical", "llama")
	s.impact(state.ImpactUnknown)
	if s.pages() != 1 {
		t.Errorf("after it came back: %v", s.effects(state.EffectNotify))
	}
}

// The verdict that comes with the change decides: it may name a cause that does not page.
func TestNewVerdictDecidesOnItsPage(t *testing.T) {
	s := newImpactStory(t)
	s.wait(12 * time.Second)
	s.impact(state.ImpactNone)
	s.fold.Triage = simpleTriage{}
	s.evidence(s.onlyIncident(), string(state.BenignAlert))
	if s.pages() != 0 || s.onlyIncident().Cause() != state.BenignAlert {
		t.Errorf("%s: %v", s.onlyIncident().Cause(), s.effects(state.EffectNotify))
	}
}

// Users count also while the verdict stays as it was.
func TestPageComesWhileVerdictStays(t *testing.T) {
	s := newImpactStory(t)
	s.wait(12 * time.Second)
	s.impact(state.ImpactNone)
	s.onlyIncident().Status = state.StatusMitigating
	s.impact(state.ImpactFelt)
	if s.pages() != 1 {
		t.Errorf("not paged: %v", s.effects(state.EffectNotify))
	}
}
