package remediate_test

import (
	"fmt"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// fail records that first aid failed twice, on pools of the same cluster, as with a bad rule that
// fires everywhere.
func (w *world) fail(ends ...state.ActionState) {
	for i, end := range ends {
		at := w.clock.now.Add(-time.Minute)
		steps := []state.ActionStep{{State: state.Intent, At: at}, {State: state.Applied, At: at}, {State: end, At: at}}
		w.actions = append(w.actions, state.Action{ID: state.ActionID(fmt.Sprintf("ACT-0%d", i)),
			Incident: state.IncidentID(fmt.Sprintf("INC-0%d", i)),
			Kind:     setArg, State: end, Steps: steps, Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment",
				Name: fmt.Sprint("other-", i), Pool: fmt.Sprint("other-", i)}})
	}
}

func TestBreakerCountsEveryFailure(t *testing.T) { // 33, 34
	for _, ends := range [][]state.ActionState{
		{state.RolledBack, state.RolledBack}, {state.NeedsHuman, state.RolledBack}, {state.Superseded, state.NeedsHuman}, {state.RollbackIntent, state.NeedsHuman},
	} {
		w := newWorld(t, setArg, policy.Auto)
		w.fail(ends...)
		a := w.plan()
		w.wantDenied(a, "breaker")
		for _, g := range a.Guards {
			if g.Guard == "lock" && g.Decision != state.Allow {
				t.Errorf("%v: another pool's run locks this one: %s", ends, g.Reason)
			}
		}
		w.clock.now = w.clock.now.Add(time.Hour) // the window is the record itself: no restart resets it, and time does
		w.actions = w.actions[1:]
		for _, g := range w.plan().Guards {
			if g.Guard == "breaker" && g.Decision != state.Allow {
				t.Errorf("%v: an hour later: %s", ends, g.Reason)
			}
		}
	}
	w := newWorld(t, setArg, policy.Auto)
	w.fail(state.Denied, state.Expired, state.RolledBack)
	for _, g := range w.plan().Guards {
		if g.Guard == "breaker" && g.Decision != state.Allow {
			t.Errorf("what wrote nothing trips it: %s", g.Reason)
		}
	}
}

func TestTrippedBreakerStopsNoRecovery(t *testing.T) { // 33
	w := newWorld(t, setArg, policy.Auto)
	w.plan()
	w.until(state.Verifying)
	w.fail(state.RolledBack, state.NeedsHuman)
	w.until(state.Succeeded)

	w = newWorld(t, setArg, policy.Auto)
	w.sick = harmed
	w.plan()
	w.until(state.RollbackIntent)
	w.fail(state.RolledBack, state.NeedsHuman)
	w.until(state.RolledBack)

	w = newWorld(t, restart, policy.Auto)
	w.plan()
	w.untilNoted("isolated")
	w.fail(state.RolledBack, state.NeedsHuman)
	w.halt = &state.Halt{Actor: sre}
	w.until(state.NeedsHuman)
	if p, err := w.cluster.Pod(t.Context(), "llm", "vllm-llama-1"); err != nil || p.Labels["serving"] != "yes" {
		t.Errorf("the worker does not serve: %v %v", p.Labels, err)
	}
}
