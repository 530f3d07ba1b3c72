package remediate_test

import (
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// One reading that fails at the end of the window is made up for.
func TestLastReadingIsMadeUpFor(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	a := w.until(state.Verifying)
	for !a.State.Done() {
		w.blind = !a.NextAt.Before(a.Verify.Until) && !w.blind
		a = w.step()
	}
	if a.State != state.Succeeded {
		t.Errorf("%s: %s", a.State, a.Reason)
	}
}

// What the verdict rests on may go dark when the trouble comes back.
func TestSignalThatFadesIsNoSuccess(t *testing.T) {
	for _, signal := range []string{"preemption_rate", "error_rate"} {
		w := newWorld(t, setArg, policy.Approve)
		w.plan()
		w.approve(sre)
		a := w.until(state.Verifying)
		dark := a.Verify.Settle.Add(6 * time.Minute)
		w.sick = func(pod string, n int) map[string]float64 {
			v := exhausted(pod, n)
			if w.clock.now.After(dark) {
				delete(v, signal)
			}
			return v
		}
		for !a.State.Done() {
			a = w.step()
		}
		if a.State != state.NeedsHuman {
			t.Errorf("%s was not read for four minutes: %s: %s", signal, a.State, a.Reason)
		}
	}
}
