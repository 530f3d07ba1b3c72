package remediate_test

import (
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// An unreachable kubelet never confirms that its pod ended.
func TestWorkerThatNeverEndsNeedsHuman(t *testing.T) {
	for _, evicted := range []bool{true, false} {
		w := newWorld(t, restart, policy.Approve)
		w.plan()
		w.approve(sre)
		w.until(state.Intent)
		w.cluster.Before = func(verb, object string) error {
			if strings.HasSuffix(object, "/eviction") {
				w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Terminating = true })
				return errLost
			}
			return nil
		}
		if !evicted {
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Terminating = true })
		}
		began := w.clock.now
		a := w.actions[0]
		for ; !a.State.Done(); a = w.step() {
			if w.clock.now.Sub(began) > 3*time.Hour {
				t.Fatalf("evicted by the run: %v; still %s after three hours: %v", evicted, a.State, a.Journal)
			}
		}
		want := state.Superseded
		if evicted {
			want = state.NeedsHuman
		}
		if a.State != want {
			t.Errorf("evicted by the run: %v; %s: %s", evicted, a.State, a.Reason)
		}
	}
}
