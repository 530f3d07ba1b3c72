package fold

import (
	"testing"
	"time"

	"paramedic/state"
)

// rung marks the incident's page as triggered with a severity.
func (s *story) rung(in *state.Incident, severity state.Severity) {
	x := &step{Fold: s.fold, Board: s.board, now: s.now}
	x.setPageStatus(in, "triggered")
	page := in.Told.On(state.ChannelPagerDuty)
	page.Ref["severity"] = string(severity)
	in.Told = in.Told.With(state.ChannelPagerDuty, page)
}

func (s *story) acknowledge(in *state.Incident) {
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID, Actor: ana}})
}

// nodeFault opens an incident of a node, whose verdict explains the pool on it.
func (s *story) nodeFault(severity string) (in *state.Incident, explain func()) {
	s.t.Helper()
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: "xid", Status: state.Firing, StartsAt: s.now,
		Labels: map[string]string{"alertname": "Xid", "symptom": "gpu_hardware", "severity": severity, "node": "gpu-3"}}}}})
	for _, of := range s.board.incidents {
		if len(of.Scope.Nodes) > 0 {
			in = of
		}
	}
	return in, func() {
		s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now,
			Samples: []state.Sample{{Signal: "verdict", Text: "gpu_fault", Entity: state.Entity{Node: "gpu-3"}}},
			Workers: []state.Worker{{Namespace: "llm", Pod: "llama-1", Pool: "llama", Node: "gpu-3"}}}})
	}
}

// A merge mutes no page: the acknowledgement of a warning does not hold for what is critical.
func TestMergeKeepsACriticalPageRinging(t *testing.T) {
	t.Run("into an acknowledged warning", func(t *testing.T) {
		s := newStory(t)
		root, explain := s.nodeFault("warning")
		s.acknowledge(root)
		s.alert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
		other := s.other(root)
		explain()
		if other.MergedInto != root.ID || root.Severity != state.Critical || root.Acknowledged() {
			t.Errorf("merged into %q, %s, acknowledged by %s", other.MergedInto, root.Severity, root.AckedBy)
		}
	})
	t.Run("of an acknowledged warning", func(t *testing.T) {
		s := newStory(t)
		s.alert(state.Firing, "HighTTFT", "ttft_high", "warning", "llama")
		warning := s.onlyIncident()
		s.acknowledge(warning)
		root, explain := s.nodeFault("critical")
		s.rung(root, state.Critical)
		explain()
		if warning.MergedInto != root.ID || root.Acknowledged() {
			t.Errorf("merged into %q, the page counts as acknowledged by %s", warning.MergedInto, root.AckedBy)
		}
	})
}

// The acknowledgement of a warning's page ends when the incident becomes critical.
func TestCriticalEndsTheAckOfAWarningPage(t *testing.T) {
	for severity, kept := range map[state.Severity]bool{state.Warning: false, state.Critical: true} {
		s := newStory(t)
		s.alert(state.Firing, "KVHigh", "kv_pressure", "warning", "llama")
		in := s.onlyIncident()
		s.rung(in, severity)
		s.acknowledge(in)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		if in.Acknowledged() != kept {
			t.Errorf("with a %s page, the acknowledgement holds: %t", severity, in.Acknowledged())
		}
	}
}

// Another tool's incident replaces our page only if it rings.
func TestLowUrgencyDoesNotReplaceThePage(t *testing.T) {
	for _, low := range []bool{false, true} {
		s := newStory(t)
		s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "triggered", ID: "Q1", Title: "TTFT high", At: s.now, Low: low,
			Labels: map[string]string{"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "warning", "pool": "llama"}}})
		s.evidence(s.onlyIncident(), "kv_exhaustion")
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		s.wait(time.Minute)
		if paged := s.pages() > 0; paged != low {
			t.Errorf("low urgency %t: Paramedic pages: %t", low, paged)
		}
	}
}

// PagerDuty can resolve a page by itself after some hours. That is no person's decision.
func TestPageThatTimesOutIsSentAgain(t *testing.T) {
	s := newStory(t)
	in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.rung(in, state.Critical)
	s.deliver(state.EffectNotify)
	s.wait(4 * time.Hour)
	s.pageEvent(in, "resolved", state.Actor{}, 0)
	if !in.Open() || in.Told.Ref(state.ChannelPagerDuty, "status") != "" || s.pages() != 1 {
		t.Errorf("%s, page %q, %d pages due", in.Status, in.Told.Ref(state.ChannelPagerDuty, "status"), s.pages())
	}
	s.rung(in, state.Critical)
	s.pageEvent(in, "resolved", ben, 0)
	if in.Open() {
		t.Error("a person resolved it, and it is open")
	}
}

// An acknowledgement ends the escalation of an open page, also in a silence.
func TestAckReachesThePageInASilence(t *testing.T) {
	s := newStory(t)
	in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.rung(in, state.Critical)
	s.deliver(state.EffectNotify)
	s.silence(in)
	if s.pages() != 0 {
		t.Fatal("the silence notifies")
	}
	s.acknowledge(in)
	if s.pages() != 1 {
		t.Errorf("%d notifications of PagerDuty are due after the acknowledgement", s.pages())
	}
}

// What needs a person can be acknowledged, although a person had acknowledged the incident before.
func TestHandOverCanBeAcknowledged(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	s.acknowledge(in)
	s.wait(time.Minute)
	for _, to := range []state.ActionState{state.Applied, state.Verifying, state.NeedsHuman} {
		s.apply(s.stepTo(*a, to, "inconclusive"))
	}
	if in.Acknowledged() {
		t.Error("it counts as acknowledged before a person saw what first aid left")
	}
	s.wait(time.Minute)
	s.acknowledge(in)
	if !in.Acknowledged() {
		t.Errorf("handed over %s, acknowledged %s", in.HandedAt, in.AckedAt)
	}
}

// Events that PagerDuty delivers late count from when they happened.
func TestLateUnackCounts(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.now = s.now.Add(45 * time.Minute) // the bot was down
	s.pageEvent(in, "acknowledged", ben, 40*time.Minute)
	if !in.Acknowledged() {
		t.Fatal("it is not acknowledged")
	}
	s.pageEvent(in, "unacknowledged", state.Actor{}, 10*time.Minute)
	if in.Acknowledged() {
		t.Errorf("acknowledged by %s, although the page rings again", in.AckedBy)
	}
}

// An alert that Alertmanager holds is not stale, however rarely it repeats it.
func TestHeldAlertIsNotStale(t *testing.T) {
	for _, held := range []bool{false, true} {
		s := newStory(t)
		in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
		for range 3 * 24 {
			s.wait(time.Hour)
			if held {
				s.apply(state.Input{Vanished: &state.Vanished{At: s.now, Held: s.fingerprints(in)}})
			}
			s.apply(state.Input{})
		}
		if in.Open() != held {
			t.Errorf("Alertmanager holds it: %t; after three days it is %s", held, in.Status)
		}
	}
}

func (s *story) fingerprints(in *state.Incident) []state.Fingerprint {
	var out []state.Fingerprint
	for _, rec := range s.board.AlertsOf(in) {
		out = append(out, rec.Alert.Fingerprint)
	}
	return out
}

// The incident that takes the alerts of an unknown rule pages at once, as those before it did.
func TestMergeOfPagesPagesAtOnce(t *testing.T) {
	s := newStory(t)
	for i := range maxSameRule {
		s.alert(state.Firing, "Mine", "", "critical", "pool-"+string(rune('a'+i)))
	}
	s.wait(31 * time.Second)
	if s.pages() != maxSameRule {
		t.Fatalf("%d pages", s.pages())
	}
	s.deliver(state.EffectNotify)
	s.alert(state.Firing, "Mine", "", "critical", "pool-z")
	for _, in := range s.board.incidents {
		if in.Everywhere != "" && s.board.effects[state.EffectID("notify:pagerduty:"+string(in.ID))] == nil {
			t.Errorf("it has no page before %s", in.NotifyBy.Sub(s.now))
		}
	}
}
