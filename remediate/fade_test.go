package remediate_test

import (
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// One failed reading at the end of the window is repeated.
func TestFailedLastReadingIsRepeated(t *testing.T) {
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

// A signal that the verdict rests on may become unreadable when the symptom returns.
func TestFadingSignalIsNoSuccess(t *testing.T) {
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
