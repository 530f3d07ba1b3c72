package fold

import (
	"testing"

	"paramedic/state"
)

// A verdict stays although newer evidence names no cause. Its steps wait for what that evidence
// leaves open, but what the bot has begun is not held back.
func TestNewerEvidenceHoldsStepsBack(t *testing.T) {
	surge := []state.Caution{{Treatment: "raise max_num_seqs", Cause: "traffic_surge", Sign: "twice the requests"}}
	for name, c := range map[string]struct {
		newer   state.Diagnosis
		prepare func(*story, *state.Incident)
		want    int
	}{
		"no cause is named":               {newer: state.Diagnosis{Cause: state.Unknown, Doubts: surge}, want: 1},
		"the same cause on less evidence": {newer: state.Diagnosis{Cause: "concurrency_cap", Score: 9, Story: state.Story{Cautions: surge}}, want: 1},
		"the bot has acted": {newer: state.Diagnosis{Cause: state.Unknown, Doubts: surge},
			prepare: func(_ *story, in *state.Incident) { in.Status = state.StatusMitigating }},
		"the trouble is over": {newer: state.Diagnosis{Cause: state.Unknown, Doubts: surge},
			prepare: func(s *story, _ *state.Incident) {
				s.alert(state.Resolved, "Queue", "queue_buildup", "critical", "llama")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.alert(state.Firing, "Queue", "queue_buildup", "critical", "llama")
			in := s.onlyIncident()
			s.verdict(in, state.Diagnosis{Cause: "concurrency_cap", Score: 12, Scope: state.Scope{Pods: []string{"a"}}})
			if c.prepare != nil {
				c.prepare(s, in)
			}
			s.verdict(in, c.newer)
			if in.Cause() != "concurrency_cap" || len(in.Diagnosis.Story.Cautions) != c.want {
				t.Errorf("%s has the cautions %+v, want %d", in.Cause(), in.Diagnosis.Story.Cautions, c.want)
			}
		})
	}
}

// A verdict that the bot has acted on keeps its cautions.
func TestActedVerdictKeepsItsCautions(t *testing.T) {
	for done, want := range map[state.ActionState]int{state.Applied: 0, state.Denied: 1} {
		in := &state.Incident{ActiveAlerts: 1, Actions: []state.ActionID{"ACT-1"}, Diagnosis: state.Diagnosis{Cause: "concurrency_cap"}}
		board := NewBoard()
		board.actions["ACT-1"] = &state.Action{State: done}
		(&step{Fold: &Fold{}, Board: board}).takeCautions(in, state.Diagnosis{Cause: state.Unknown, Doubts: []state.Caution{{Treatment: "raise max_num_seqs"}}})
		if got := len(in.Diagnosis.Story.Cautions); got != want {
			t.Errorf("after an action that is %s: %d cautions, want %d", done, got, want)
		}
	}
}
