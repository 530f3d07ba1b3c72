package guard

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

// earlier adds a run of the same kind on the same pool, in another incident, that recorded its
// intent and came to its state so long ago.
func (s *Scene) earlier(id state.ActionID, st state.ActionState, intent, last time.Duration) *state.Action {
	a := state.Action{ID: id, Incident: "INC-0", Cause: s.Action.Cause, Kind: s.Action.Kind, Target: s.Action.Target, State: st, Change: "an earlier change",
		Journal: map[string]string{}, Steps: []state.ActionStep{{State: state.Proposed, At: s.Now.Add(-intent)}, {State: state.Intent, At: s.Now.Add(-intent)}}}
	if st != state.Intent {
		a.Steps = append(a.Steps, state.ActionStep{State: st, At: s.Now.Add(-last)})
	}
	s.actions = append(s.actions, a)
	return &s.actions[len(s.actions)-1]
}

// A ruling is a case of a guard: what is different from the calm scene, and what the guard then
// answers.
type ruling struct {
	name string
	kind string // empty: set_engine_arg
	set  func(*Scene)
	want state.Decision
	says string
	free time.Duration // of a hold: when to ask again, from now on
}

func runRulings(t *testing.T, guard func(context.Context, *Scene) verdict, cases []ruling) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := calm(cmp.Or(c.kind, playbooks.ActionSetEngineArg))
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

// calm returns a scene of a sick pool for which every guard that it is made for allows.
func calm(kind string) *Scene {
	c := remediatetest.Calm(kind)
	s := &Scene{Site: &Site{Rules: c.Rules, View: c.View}, Now: noon, Incident: c.Incident, Action: c.Action, Namespace: c.Namespace, Workload: c.Workload, Pods: c.Pods, Pod: c.Pod, Evidence: c.Evidence}
	s.Rule = s.Site.For(s.Action.Cause, kind, s.Action.Target)
	return s
}

// sample adds a value that a worker reports.
func sample(s *Scene, signal, pod string, value float64, age time.Duration) {
	remediatetest.Add(&s.Evidence, signal, pod, value, s.Now.Add(-age))
}

// each adds a value that every worker of the pool reports now.
func each(s *Scene, signal string, value float64) {
	for _, p := range s.Pods {
		sample(s, signal, p.Name, value, 0)
	}
}
