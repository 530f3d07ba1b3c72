package fold

import (
	"testing"
	"time"

	"paramedic/state"
)

// foreignStory returns an incident that another tool's page opened.
func foreignStory(t *testing.T) (*story, *state.Incident) {
	s := newStory(t)
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "triggered", ID: "Q1", Title: "TTFT high",
		Labels: map[string]string{
			"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "llama"}}})
	return s, s.onlyIncident()
}

// notes delivers the due notes and returns the causes that they would name.
func (s *story) notes() (named []state.Cause) {
	s.t.Helper()
	for _, e := range s.board.effects {
		if e.Kind != state.EffectNote || e.Due.After(s.now) {
			continue
		}
		in := s.board.incidents[e.Incident]
		named = append(named, in.Cause())
		s.apply(state.Input{Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
			Ref: map[string]string{state.RefCause: string(in.Cause())}}})
	}
	return named
}

func TestNoteWaitsForANamedCause(t *testing.T) {
	s, in := foreignStory(t)
	s.evidence(in, "")
	if got := s.notes(); got != nil {
		t.Fatalf("written at once: %v", got)
	}
	s.now = s.now.Add(30 * time.Second)
	s.evidence(in, "kv_exhaustion")
	if got := s.notes(); len(got) != 1 || got[0] != "kv_exhaustion" {
		t.Fatalf("notes %v", got)
	}
	s.now = s.now.Add(time.Minute)
	if got := s.notes(); got != nil {
		t.Errorf("written again: %v", got)
	}
}

func TestUnknownIsNotedAfterAMinute(t *testing.T) {
	s, in := foreignStory(t)
	s.evidence(in, "")
	s.now = s.now.Add(59 * time.Second)
	s.evidence(in, "")
	if got := s.notes(); got != nil {
		t.Fatalf("written after %v: %v", 59*time.Second, got)
	}
	s.now = s.now.Add(time.Second)
	if got := s.notes(); len(got) != 1 || got[0] != state.Unknown {
		t.Fatalf("after a minute: %v", got)
	}
	s.now = s.now.Add(time.Minute)
	s.evidence(in, "kv_exhaustion")
	if got := s.notes(); len(got) != 1 || got[0] != "kv_exhaustion" {
		t.Fatalf("when the cause is named: %v", got)
	}
}

// A verdict that changes to and fro writes a bounded number of notes: one for each cause at the
// time of a delivery.
func TestNotesAreBounded(t *testing.T) {
	s, in := foreignStory(t)
	total := 0
	for i := range 10 {
		in.Diagnosis.Cause = []state.Cause{"kv_leak", "kv_exhaustion"}[i%2]
		in.DiagnosedAt = s.now
		s.board.touch(kindIncident, string(in.ID))
		s.evidence(in, string(in.Diagnosis.Cause))
		total += len(s.notes())
		s.now = s.now.Add(time.Minute)
	}
	if total != maxNotes {
		t.Errorf("%d notes, want %d", total, maxNotes)
	}
}

// A note that was composed before the cause changed names the old cause. Another note follows.
func TestNoteOfAnOlderCauseIsFollowed(t *testing.T) {
	s, in := foreignStory(t)
	s.evidence(in, "kv_exhaustion")
	for _, e := range s.board.effects {
		if e.Kind == state.EffectNote {
			s.apply(state.Input{Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
				Ref: map[string]string{state.RefCause: string(state.Unknown)}}})
		}
	}
	if got := s.notes(); len(got) != 1 || got[0] != "kv_exhaustion" {
		t.Errorf("notes %v", got)
	}
}

// Another tool's page about a merged incident gets the root's cause.
func TestNoteNamesRootsCause(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "XID", "gpu_error", "critical", "llama")
	root := s.onlyIncident()
	s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: "triggered", ID: "Q1", Title: "TTFT high",
		Labels: map[string]string{
			"alertname": "HighTTFT", "symptom": "ttft_high", "severity": "critical", "pool": "mistral", "node": "n1"}}})
	var part *state.Incident
	for _, in := range s.board.incidents {
		if in != root {
			part = in
		}
	}
	s.evidence(part, "")
	s.apply(state.Input{Evidence: &state.Evidence{Incident: root.ID, At: s.now,
		Samples: []state.Sample{{Signal: "verdict", Text: "gpu_fault", Entity: state.Entity{Node: "n1"}}}}})
	if part.MergedInto != root.ID {
		t.Fatal("the part was not merged into its root")
	}
	if got := s.notes(); len(got) != 1 || got[0] != "gpu_fault" {
		t.Errorf("notes %v", got)
	}
}

// An older version wrote one note and did not record its cause. It stays the only one until the
// cause changes.
func TestNoteOfAnOlderVersionStands(t *testing.T) {
	s, in := foreignStory(t)
	s.evidence(in, "kv_exhaustion")
	s.notes()
	in.External[0].Cause, in.External[0].Notes = "", 0
	s.board.touch(kindIncident, string(in.ID))
	s.evidence(in, "kv_exhaustion")
	if got := s.notes(); got != nil || in.External[0].Cause != "kv_exhaustion" {
		t.Errorf("notes %v, %+v", got, in.External)
	}
}
