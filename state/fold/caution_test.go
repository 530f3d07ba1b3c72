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
			see := func(d state.Diagnosis) {
				s.fold.Triage = fixedVerdict{d: d}
				s.apply(state.Input{Evidence: &state.Evidence{Incident: in.ID, At: s.now}})
			}
			see(state.Diagnosis{Cause: "concurrency_cap", Score: 12, Scope: state.Scope{Pods: []string{"a"}}})
			if c.prepare != nil {
				c.prepare(s, in)
			}
			see(c.newer)
			if in.Cause() != "concurrency_cap" || len(in.Diagnosis.Story.Cautions) != c.want {
				t.Errorf("%s has the cautions %+v, want %d", in.Cause(), in.Diagnosis.Story.Cautions, c.want)
			}
		})
	}
}
