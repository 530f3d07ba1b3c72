package fold

import (
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// other returns the incident beside this one.
func (s *story) other(than *state.Incident) *state.Incident {
	s.t.Helper()
	for _, in := range s.board.incidents {
		if in.ID != than.ID {
			return in
		}
	}
	s.t.Fatal("there is no other incident")
	return nil
}

func (s *story) silence(in *state.Incident) {
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbSilence, Incident: in.ID, Until: s.now.Add(8 * time.Hour), Actor: ana}})
}

// A verdict that comes after the alert has ended again reopens the first incident, which then ends
// like any other.
func TestRelapseThatIsOverEnds(t *testing.T) {
	s := newStory(t)
	old := s.ended("llama", "kv_exhaustion")
	s.wait(5 * time.Minute)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.evidence(s.other(old), "kv_exhaustion")
	if old.Relapses != 1 || !old.Open() {
		t.Fatalf("the first incident is %s after %d relapses", old.Status, old.Relapses)
	}
	if s.wait(s.fold.Settings.ResolveHold); old.Open() {
		t.Errorf("it is %s after the hold", old.Status)
	}
}

func TestRelapseKeepsASilence(t *testing.T) {
	s := newStory(t)
	old := s.ended("llama", "kv_exhaustion")
	s.wait(5 * time.Minute)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.other(old)
	s.silence(in)
	s.deliver(state.EffectNotify)
	s.evidence(in, "kv_exhaustion")
	if got := s.effects(state.EffectNotify); old.Relapses != 1 || len(got) != 0 {
		t.Errorf("after %d relapses the silenced trouble wants %v", old.Relapses, got)
	}
}

// Incidents of a rule that a person has silenced are not merged into a new one, which would notify.
func TestSilencedIncidentsOfARuleStay(t *testing.T) {
	s := newStory(t)
	s.fireUnknownRule("Odd", 0, 8)
	for _, in := range s.board.incidents {
		s.silence(in)
	}
	s.fireUnknownRule("Odd", 8, 9)
	for _, in := range s.board.incidents {
		if in.MergedInto != "" {
			t.Fatalf("%s was merged, although a person had silenced it", in.ID)
		}
	}
}

// The same inputs erase the same incidents on every copy of the state.
func TestSweepErasesTheOldestFirst(t *testing.T) {
	for range 3 {
		s := endedLongAgo(t, maxForgotten+3)
		var order []*state.Incident
		for _, in := range s.board.incidents {
			order = append(order, in)
		}
		slices.SortFunc(order, byEnd)
		s.apply(state.Input{})
		erased := len(order) - len(s.board.incidents)
		for _, in := range order[erased:] {
			if s.board.incidents[in.ID] == nil {
				t.Fatalf("%s is erased, and one of %d that ended before it is not", in.ID, erased)
			}
		}
	}
}

// Alertmanager could not repeat an alert while the bot was down, or while the clock jumped. Nothing
// ends for that.
func TestAlertsAreNotStaleAfterAPause(t *testing.T) {
	for name, pause := range map[string]func(s *story){
		"the bot was down": func(s *story) {
			s.now = s.now.Add(9 * time.Hour)
			s.apply(state.Input{})
		},
		"the clock was set": func(s *story) {
			s.now = s.now.Add(9 * time.Hour)
			s.apply(state.Input{Clock: &state.ClockStep{By: 9 * time.Hour}})
		},
	} {
		s := newStory(t)
		s.fold.Settings.StaleAfter = 8 * time.Hour
		in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
		s.wait(15 * time.Minute)
		s.apply(state.Input{})
		pause(s)
		hours := func(n int) {
			for range 4 * n {
				s.wait(15 * time.Minute)
				s.apply(state.Input{})
			}
		}
		if hours(7); in.ActiveAlerts != 1 {
			t.Errorf("%s: the alert ended", name)
		}
		if hours(3); in.Open() {
			t.Errorf("%s: an alert that is not repeated for 10 h never ends", name)
		}
	}
}

// Another tool pages for the trouble. When that page has ended, ours is due.
func TestEndedForeignPageNoLongerReplacesOurs(t *testing.T) {
	s := newStory(t)
	event := func(what string) {
		s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: what, ID: "Q1", Title: "TTFT high", At: s.now,
			Labels: map[string]string{"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "llama"}}})
	}
	event("triggered")
	in := s.onlyIncident()
	s.evidence(in, "kv_exhaustion")
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	if s.pages() != 0 {
		t.Fatal("a second page while the other tool pages")
	}
	s.wait(time.Minute)
	event("resolved")
	if s.pages() != 1 {
		t.Errorf("%d pages after the other tool's has ended, want 1", s.pages())
	}
}

// A silenced warning becomes critical because a critical incident is merged into it. That ends the
// silence.
func TestMergeOfACriticalIncidentEndsASilence(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "XidNode", "gpu_hardware", "warning", "llama")
	root := s.onlyIncident()
	s.silence(root)
	s.alert(state.Firing, "Xid", "gpu_hardware", "critical", "qwen")
	x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod"}}
	x.merge(root, s.other(root))
	if root.Severity != state.Critical || !root.SilencedUntil.IsZero() {
		t.Errorf("%s, silenced until %s", root.Severity, root.SilencedUntil)
	}
}

// An incident is reopened while the end of its page is on its way. Its next page is a new one.
func TestReopenedIncidentPagesDespiteALateEnd(t *testing.T) {
	s := newStory(t)
	in := s.ended("llama", "kv_exhaustion")
	x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod", Seq: 1 << 30}}
	x.publish(in) // the resolve is due
	var end state.Effect
	for id, e := range s.board.effects {
		if id == state.EffectID("notify:pagerduty:"+string(in.ID)) {
			end = *e
		}
	}
	s.wait(5 * time.Minute)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.evidence(s.other(in), "kv_exhaustion")
	s.apply(state.Input{Outcome: &state.Outcome{Effect: end.ID, Turn: end.Turn, Done: true, Rev: in.Rev - 1, Ref: map[string]string{"status": "resolved"}}})
	if status := in.Told.Ref(state.ChannelPagerDuty, "status"); !in.Open() || status != "" || s.pages() != 1 {
		t.Errorf("the incident is %s, its page %q, %d pages are due", in.Status, status, s.pages())
	}
	s.pageEvent(in, "resolved", state.Actor{}, time.Minute) // PagerDuty reports the end of the old page late
	if !in.Open() {
		t.Error("the late end of the old page resolved it")
	}
}

// A channel refuses a revision for good. A newer one that came meanwhile is tried even so.
func TestRevisionDuringARefusalIsTried(t *testing.T) {
	for name, tried := range map[string]int{"a newer revision": 1, "the same revision": 0} {
		s := newStory(t)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		in := s.onlyIncident()
		s.wait(30 * time.Second)
		id := state.EffectID("notify:slack:" + string(in.ID))
		s.apply(state.Input{Outcome: &state.Outcome{Effect: id, Turn: s.board.effects[id].Turn, Done: true, Error: "403", Tried: in.Rev - uint64(tried)}})
		if again := s.board.effects[id] != nil; again != (tried == 1) {
			t.Errorf("%s: tried again %t", name, again)
		}
	}
}

// A person acknowledged a warning. When it becomes critical, the page must ring.
func TestAckOfAWarningDoesNotMuteAPage(t *testing.T) {
	for paged, kept := range map[string]bool{"": false, "acknowledged": true} {
		s := newStory(t)
		s.alert(state.Firing, "KVHigh", "kv_pressure", "warning", "llama")
		in := s.onlyIncident()
		s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID, Actor: ana}})
		(&step{Fold: s.fold, Board: s.board, now: s.now}).setPageStatus(in, paged)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		if got := !in.AckedAt.IsZero(); got != kept {
			t.Errorf("page %q: still acknowledged %t, want %t", paged, got, kept)
		}
	}
}
