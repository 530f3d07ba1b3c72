package fold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// ended returns an incident with a verdict whose alert has resolved, and which was resolved after
// the hold.
func (s *story) ended(pool, cause string) *state.Incident {
	s.t.Helper()
	in := s.diagnosed("KVFull", "kv_pressure", pool, cause)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", pool)
	s.wait(s.fold.Settings.ResolveHold)
	if in.Open() {
		s.t.Fatalf("the incident is %s after the hold", in.Status)
	}
	s.deliver(state.EffectNotify)
	return in
}

// again fires the alert once more, and returns the incident that it opens, with its verdict.
func (s *story) again(after time.Duration, pool, cause string) *state.Incident {
	s.t.Helper()
	s.wait(after)
	return s.diagnosed("KVFull", "kv_pressure", pool, cause)
}

func TestTroubleThatComesBackIsOneIncident(t *testing.T) {
	s := newStory(t)
	old := s.ended("llama", "kv_exhaustion")
	in := s.again(10*time.Minute, "llama", "kv_exhaustion")
	if !old.Open() || in.MergedInto != old.ID || old.ActiveAlerts != 1 || old.Relapses != 1 {
		t.Fatalf("the first is %s with %d alerts after %d relapses, the second was merged into %q",
			old.Status, old.ActiveAlerts, old.Relapses, in.MergedInto)
	}
	if texts := strings.Join(s.threadTexts(old), "\n"); !strings.Contains(texts, "the trouble is back, 10m after its end") {
		t.Errorf("the thread does not say that it came back:\n%s", texts)
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(s.fold.Settings.ResolveHold)
	if old.Open() {
		t.Errorf("it is %s after its second end", old.Status)
	}
	if s.again(10*time.Minute, "llama", "kv_exhaustion"); old.Relapses != 2 {
		t.Errorf("a third time counts as %d relapses", old.Relapses)
	}
}

func TestRelapsePagesAgain(t *testing.T) {
	s := newStory(t)
	s.fold.Routing = impactRouting{}
	old := s.ended("llama", "kv_exhaustion")
	(&step{Fold: s.fold, Board: s.board, now: s.now}).setPageStatus(old, "resolved")
	s.wait(5 * time.Minute)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	for _, in := range s.board.incidents {
		if in.ID != old.ID {
			s.evidence(in, "kv_exhaustion")
		}
	}
	if s.pages() == 0 || old.Told.Ref(state.ChannelPagerDuty, "status") != "" {
		t.Errorf("%d pages are due, and the page is %q", s.pages(), old.Told.Ref(state.ChannelPagerDuty, "status"))
	}
}

// An alert that flaps all night pages a few times, and its acknowledgement holds then.
func TestFlappingPagesAFewTimes(t *testing.T) {
	s := newStory(t)
	in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	acks := 0
	for range 100 {
		s.deliver(state.EffectNotify)
		if in.Open() && !in.Acknowledged() {
			s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID, Actor: ana}})
			acks++
		}
		s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
		s.wait(5 * time.Minute)
		s.deliver(state.EffectNotify)
		s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
		for _, other := range s.open() {
			if other != in {
				s.evidence(other, "kv_exhaustion")
			}
		}
	}
	if in.Relapses > 4 || acks > 5 {
		t.Errorf("%d relapses, acknowledged %d times", in.Relapses, acks)
	}
}

func TestOtherTroubleIsNoRelapse(t *testing.T) {
	for name, next := range map[string]func(s *story, old *state.Incident) *state.Incident{
		"another cause": func(s *story, _ *state.Incident) *state.Incident {
			return s.again(time.Minute, "llama", "traffic_surge")
		},
		"another pool": func(s *story, _ *state.Incident) *state.Incident {
			return s.again(time.Minute, "qwen", "kv_exhaustion")
		},
		"much later": func(s *story, _ *state.Incident) *state.Incident {
			return s.again(relapseWindow+time.Minute, "llama", "kv_exhaustion")
		},
		"no verdict": func(s *story, _ *state.Incident) *state.Incident {
			return s.again(time.Minute, "llama", "")
		},
	} {
		s := newStory(t)
		old := s.ended("llama", "kv_exhaustion")
		if in := next(s, old); in.MergedInto != "" || old.Open() {
			t.Errorf("%s: the first incident is %s, the second was merged into %q", name, old.Status, in.MergedInto)
		}
	}
}

func TestPersonsEndStays(t *testing.T) {
	s := newStory(t)
	old := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	s.resolveBy(old)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	if in := s.again(time.Minute, "llama", "kv_exhaustion"); in.MergedInto != "" || old.Open() {
		t.Errorf("the incident that a person resolved is %s", old.Status)
	}
}

func TestFixThatFailedIsANewIncident(t *testing.T) {
	s := newStory(t)
	old, a := s.proposed("approve")
	s.apply(s.commandFor(state.VerbApprove, *a))
	s.runTo(a, state.Admitted, state.Intent, state.Applied, state.Verifying, state.Succeeded)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(s.fold.Settings.ResolveHold)
	if old.Open() {
		t.Fatalf("the incident is %s", old.Status)
	}
	if in := s.again(time.Minute, "llama", "kv_exhaustion"); in.MergedInto != "" || old.Open() {
		t.Errorf("after a write the first incident is %s", old.Status)
	}
}

// A restart must not change which incident a trouble comes back to.
func TestRestartKeepsTheOrderOfEnds(t *testing.T) {
	s := newStory(t)
	first := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	second := s.diagnosed("KVFull", "kv_pressure", "qwen", "kv_exhaustion")
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "qwen")
	s.wait(time.Minute)
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.wait(s.fold.Settings.ResolveHold)
	for name, b := range map[string]*Board{"live": s.board, "loaded": loadBoard(t, s.stored())} {
		var got []state.IncidentID
		for _, in := range b.ended[endKey("prod", "kv_exhaustion")] {
			got = append(got, in.ID)
		}
		if want := []state.IncidentID{second.ID, first.ID}; !slices.Equal(got, want) {
			t.Errorf("%s: the ends are %v, want %v", name, got, want)
		}
	}
}

// A worker in a crash loop that nothing names is down again and again.
func TestUnnamedTroubleThatComesBackIsOne(t *testing.T) {
	s := newStory(t)
	fire := func(status state.AlertStatus, pod, symptom string) *state.Incident {
		a := s.newAlert(status, "Worker"+symptom, symptom, "critical", "llama")
		a.Labels["pod"], a.Fingerprint = pod, state.Fingerprint(state.Hash(pod, symptom))
		s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
		var newest *state.Incident
		for _, in := range s.board.incidents {
			if newest == nil || in.Number > newest.Number {
				newest = in
			}
		}
		return newest
	}
	old := fire(state.Firing, "llama-0", "target_down")
	s.evidence(old, "")
	fire(state.Resolved, "llama-0", "target_down")
	s.wait(s.fold.Settings.ResolveHold)
	if old.Open() {
		t.Fatalf("the first incident is %s after the hold", old.Status)
	}
	s.wait(time.Minute)
	for pod, symptom := range map[string]string{"llama-1": "target_down", "llama-0": "error_rate"} {
		in := fire(state.Firing, pod, symptom)
		s.evidence(in, "")
		if in == old || in.MergedInto != "" {
			t.Errorf("%s of %s is taken for the trouble that ended", symptom, pod)
		}
		fire(state.Resolved, pod, symptom)
		s.wait(s.fold.Settings.ResolveHold)
	}
	s.wait(time.Minute)
	if in := fire(state.Firing, "llama-0", "target_down"); in == old {
		t.Fatal("the alert joined a resolved incident")
	} else if s.evidence(in, ""); in.MergedInto != old.ID || !old.Open() {
		t.Errorf("the worker is down again: the first incident is %s, the new one was merged into %q", old.Status, in.MergedInto)
	}
}
