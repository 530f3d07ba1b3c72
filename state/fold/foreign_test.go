package fold

import (
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

var ben = state.Actor{ID: "P1", Name: "Ben", Via: "pagerduty"}

// pageEvent applies an event of the incident's own page that happened some time ago.
func (s *story) pageEvent(in *state.Incident, event string, by state.Actor, ago time.Duration) {
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: event, ID: "Q1", Key: string(in.ID), Actor: by,
		At: s.now.Add(-ago)}})
}

// If a person or PagerDuty withdraws an acknowledgement, the incident is open again, and others see
// that.
func TestPagerDutyUnackWithdrawsAck(t *testing.T) {
	for name, by := range map[string]state.Actor{"by a person": ben, "in time": {}} {
		s := newStory(t)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		in := s.onlyIncident()
		s.pageEvent(in, "acknowledged", ben, time.Second)
		rev := in.Rev
		s.pageEvent(in, "unacknowledged", by, 0)
		if in.Status != state.StatusOpen || !in.AckedAt.IsZero() || in.AckedBy != nil || in.Rev == rev ||
			in.Told.Ref(state.ChannelPagerDuty, "status") != "triggered" {
			t.Fatalf("%s: status %s, acked by %v, page %v", name, in.Status, in.AckedBy, in.Told)
		}
		if last := s.threadTexts(in); !strings.Contains(last[len(last)-1], "no longer acknowledged by Ben (pagerduty:P1)") {
			t.Errorf("%s: the thread says %q", name, last)
		}
		s.pageEvent(in, "acknowledged", ben, 0)
		if in.Status != state.StatusAcked {
			t.Errorf("%s: acknowledged again: %s", name, in.Status)
		}
	}
}

// A reopened page reopens the incident if alerts fire, and else is recorded only.
func TestPagerDutyReopenReopensIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	s.pageEvent(in, "resolved", ben, 0)
	if in.Open() {
		t.Fatal("it is not resolved")
	}
	s.alert(state.Resolved, "HighTTFT", "ttft_high", "critical", "llama")
	s.now = s.now.Add(time.Minute)
	s.pageEvent(in, "reopened", ben, 0)
	if in.Status != state.StatusOpen || !in.ResolvedAt.IsZero() || in.ResolvedBy != "" || in.ActiveAlerts != 1 ||
		in.Told.Ref(state.ChannelPagerDuty, "status") != "triggered" {
		t.Fatalf("status %s, %d active, page %v", in.Status, in.ActiveAlerts, in.Told)
	}
	if len(s.effects(state.EffectEnrich)) != 1 {
		t.Errorf("evidence is not gathered again: %v", s.effects(state.EffectEnrich))
	}
	s.alert(state.Firing, "Preemptions", "preemptions", "warning", "llama")
	if got := s.onlyIncident(); got.ActiveAlerts != 2 {
		t.Errorf("a new alert of the pool did not join it: %d active", got.ActiveAlerts)
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Resolved, "Preemptions", "preemptions", "warning", "llama")
	s.wait(3 * time.Minute)
	if in.Status != state.StatusResolved {
		t.Fatalf("its alerts are gone, and it is %s", in.Status)
	}
	s.pageEvent(in, "reopened", ben, 0)
	if in.Status != state.StatusResolved || !strings.Contains(s.entries[len(s.entries)-1].Text, "it stays resolved here") {
		t.Errorf("status %s: %q", in.Status, s.entries[len(s.entries)-1].Text)
	}
}

// Webhooks come out of order. An earlier event never overrides a later one, on either side.
func TestOlderPagerDutyEventsChangeNothing(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.now = s.now.Add(time.Minute)
	s.pageEvent(in, "acknowledged", ben, 0)
	s.pageEvent(in, "unacknowledged", ben, 10*time.Second)
	if in.Status != state.StatusAcked {
		t.Fatalf("an older event took the acknowledgement back: %s", in.Status)
	}
	s.pageEvent(in, "resolved", ben, 0)
	for _, event := range []string{"reopened", "acknowledged", "unacknowledged"} {
		s.pageEvent(in, event, ben, 5*time.Second)
	}
	if in.Open() || in.Told.Ref(state.ChannelPagerDuty, "status") != "resolved" {
		t.Fatalf("an older event reopened it: %s, page %v", in.Status, in.Told)
	}

	s = newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in = s.onlyIncident()
	s.now = s.now.Add(time.Minute)
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID,
		Actor: state.Actor{ID: "U1", Name: "ana", Via: "slack"}}})
	s.pageEvent(in, "unacknowledged", state.Actor{}, 30*time.Second)
	if in.Status != state.StatusAcked || in.AckedBy.ID != "U1" {
		t.Errorf("a page's older timeout took an acknowledgement in Slack back: %s", in.Status)
	}
}

// Another tool's incident whose end arrives before its start opens nothing.
func TestForeignEndBeforeStartOpensNothing(t *testing.T) {
	s := newStory(t)
	theirs := func(event string, at time.Time) {
		s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: event, ID: "Q1", Title: "TTFT high", At: at,
			Labels: map[string]string{
				"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "llama"}}})
	}
	began := s.now
	s.now = s.now.Add(5 * time.Minute)
	theirs("resolved", began.Add(2*time.Minute))
	theirs("triggered", began)
	if n := len(s.board.incidents); n != 0 {
		t.Fatalf("%d incidents of one that is over", n)
	}
	theirs("reopened", began.Add(3*time.Minute))
	in := s.onlyIncident()
	if in.ActiveAlerts != 1 || !in.StartedAt.Equal(began.Add(3*time.Minute)) {
		t.Fatalf("%d active since %s", in.ActiveAlerts, in.StartedAt)
	}
	theirs("resolved", began.Add(2*time.Minute)) // delivered again
	if in.ActiveAlerts != 1 {
		t.Error("an older end ended it")
	}
	theirs("resolved", began.Add(4*time.Minute))
	s.wait(3 * time.Minute)
	if in.Status != state.StatusResolved {
		t.Errorf("it is %s", in.Status)
	}
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "resolved", ID: "Q2", Title: "the fridge is warm"}})
	if s.alertCount() != 1 {
		t.Errorf("%d alerts are remembered; what is not about inference is none", s.alertCount())
	}
}

func TestReopenedIncidentCountsItsRuleAgain(t *testing.T) {
	s := newStory(t)
	s.fireUnknownRule("Mine", 0, maxSameRule+1)
	in := s.open()[0]
	if in.Everywhere != "Mine" {
		t.Fatalf("%d incidents, the first counts %q", len(s.open()), in.Everywhere)
	}
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
	s.pageEvent(in, "reopened", state.Actor{}, 0)
	if !in.Open() {
		t.Fatal("it was not reopened")
	}
	s.fireUnknownRule("Mine", 20, 20+maxSameRule)
	if got := s.open(); len(got) != 1 || got[0] != in {
		t.Errorf("%d incidents are open, want the one that was reopened", len(got))
	}
}
