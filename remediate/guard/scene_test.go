package guard

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/remediatetest"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// earlier adds a run of the same kind on the same pool, in another incident. It recorded its intent
// and came to its state at the given ages.
func (s *Scene) earlier(id state.ActionID, st state.ActionState, intent, last time.Duration) *state.Action {
	a := state.Action{ID: id, Incident: "INC-0", Cause: s.Action.Cause, Kind: s.Action.Kind, Target: s.Action.Target, State: st,
		Change:  "an earlier change",
		Journal: map[string]string{}, Steps: []state.ActionStep{{State: state.Proposed, At: s.Now.Add(-intent)},
			{State: state.Intent, At: s.Now.Add(-intent)}}}
	if st != state.Intent {
		a.Steps = append(a.Steps, state.ActionStep{State: st, At: s.Now.Add(-last)})
	}
	s.actions = append(s.actions, a)
	return &s.actions[len(s.actions)-1]
}

// A guardCase is a case of a guard: the changes to the scene, and the guard's answer.
type guardCase struct {
	name string
	kind string // empty: set_engine_arg
	set  func(*Scene)
	want state.Decision
	says string
	free time.Duration // of a hold: when to ask again, from now on
}

func runGuardCases(t *testing.T, guard func(context.Context, *Scene) verdict, cases []guardCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(cmp.Or(c.kind, playbooks.ActionSetEngineArg))
			if c.set != nil {
				c.set(s)
			}
			got := guard(t.Context(), s)
			if got.decision != c.want || !strings.Contains(got.reason, c.says) {
				t.Errorf("%s: %q, want %s with %q", got.decision, got.reason, c.want, c.says)
			}
			if c.free != 0 && !got.retryAt.Equal(noon.Add(c.free)) {
				t.Errorf("asks again at %s", got.retryAt)
			}
		})
	}
}

var noon = remediatetest.Noon

// titles has titles as in the catalogue of signals. A signal without one is shown by its ID.
var titles = verify.Titles{"kv_usage": "KV cache in use", "requests_running": "Requests running"}

// sceneOf returns a scene that every guard allows.
func sceneOf(kind string) *Scene {
	c := remediatetest.NewCase(kind)
	s := &Scene{Site: &Site{Rules: c.Rules, View: c.View, Titles: titles}, Now: noon, Incident: c.Incident, Action: c.Action, Namespace: c.Namespace,
		Workload: c.Workload, Pods: c.Pods, Pod: c.Pod, Evidence: c.Evidence}
	s.Rule = s.Site.For(s.Action.Cause, kind, s.Action.Target)
	return s
}

// sample adds a value that a worker reports.
func sample(s *Scene, signal, pod string, value float64, age time.Duration) {
	remediatetest.AddSample(&s.Evidence, signal, pod, value, s.Now.Add(-age))
}

// each adds a value that every worker of the pool reports now.
func each(s *Scene, signal string, value float64) {
	for _, p := range s.Pods {
		sample(s, signal, p.Name, value, 0)
	}
}
