package remediate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// putBack changes the value as a GitOps tool does that finds a value other than its source's.
func (w *world) putBack() {
	w.cluster.SetArgs(pool, "argocd-controller", "--model=llama", "--max-num-seqs=256")
}

func TestGitOpsRevertSupersedes(t *testing.T) { // 24
	for _, at := range []state.ActionState{state.Applied, state.Verifying, state.RollbackIntent} {
		t.Run(string(at), func(t *testing.T) {
			w := newWorld(t, setArg, policy.Auto)
			if at == state.RollbackIntent {
				w.sick = harmed
			}
			w.plan()
			id := w.until(at).ID
			w.putBack()
			for range 5 {
				w.step()
			}
			a, _ := w.Action(id)
			if a.State != state.Superseded ||
				!strings.Contains(a.Reason, "argocd-controller sets the pod template of vllm-llama: make the change in its source") ||
				a.NeedsPerson() {
				t.Fatalf("%s: %s", a.State, a.Reason)
			}
			w.wantWrites(1)
			w.clock.now = w.clock.now.Add(time.Hour)
			w.plan()
			for range 5 {
				w.step()
			}
			w.wantWrites(1) // no reapply loop
			if !slices.Contains(w.args(), "--max-num-seqs=256") {
				t.Errorf("%v", w.args())
			}
		})
	}
}

// The hand that put the value back left no mark. The next incident of the pool must not write it
// again.
func TestPutBackIsNotTriedAgain(t *testing.T) {
	w := newWorld(t, setArg, policy.Auto)
	w.plan()
	w.until(state.Verifying)
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=256")
	if a := w.until(state.Superseded); strings.Contains(a.Reason, "its source") {
		t.Error(a.Reason)
	}
	w.clock.now = w.clock.now.Add(7 * time.Hour)
	w.in.ID, w.in.OpenedAt = "INC-2", w.clock.now.Add(-10*time.Minute)
	w.in.StartedAt = w.in.OpenedAt
	a := w.plan()
	w.wantDenied(a, "history")
	for _, g := range a.Guards {
		if g.Guard == "lock" && g.Decision != state.Allow {
			t.Errorf("it locks: %s", g.Reason)
		}
	}
}

func TestRunWithoutWriteLocksNothing(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		happen func(w *world)
		want   state.ActionState
	}{
		"the value was changed": {setArg, func(w *world) { w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=64") }, state.Superseded},
		"the workload is another one": {setArg, func(w *world) {
			w.cluster.Edit(pool, "kubectl-create", func(doc map[string]any) { doc["metadata"].(map[string]any)["uid"] = "another" })
		}, state.Superseded},
		"the patch is forbidden": {setArg, func(w *world) { w.cluster.Before = always(cluster.ErrForbidden) }, state.Denied},
		"the patch is refused":   {setArg, func(w *world) { w.cluster.Before = always(cluster.ErrRefused) }, state.Denied},
		"the labels were changed": {restart, func(w *world) {
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Labels["serving"] = "mine" })
		}, state.Superseded},
		"isolating is forbidden": {restart, func(w *world) { w.cluster.Before = always(cluster.ErrForbidden) }, state.Denied},
		"isolating is refused":   {restart, func(w *world) { w.cluster.Before = always(cluster.ErrRefused) }, state.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.kind, policy.Approve)
			w.plan()
			w.approve(sre)
			id := w.until(state.Intent).ID
			c.happen(w)
			w.step()
			a, _ := w.Action(id)
			if a.State != c.want || a.NeedsPerson() || !strings.Contains(a.Reason, "nothing was written") {
				t.Errorf("%s: %s", a.State, a.Reason)
			}
			w.wantWrites(0)
			w.cluster.Before = nil
			w.in.ID, w.in.OpenedAt = "INC-2", w.in.OpenedAt.Add(time.Minute)
			for _, g := range w.plan().Guards {
				if (g.Guard == "lock" || g.Guard == "history" || g.Guard == "budget") && g.Decision != state.Allow {
					t.Errorf("%s: %s %s", g.Guard, g.Decision, g.Reason)
				}
			}
		})
	}
}

// The cluster may refuse every real write after an accepted dry run. The bot stops asking.
func TestRefusedWritesAreBounded(t *testing.T) { // 44
	w := newWorld(t, setArg, policy.Approve)
	asked := 0
	w.cluster.Before = func(string, string) error { asked++; return cluster.ErrRefused }
	for range 12 {
		w.clock.now = w.clock.now.Add(5 * time.Minute)
		w.in.StartedAt, w.in.OpenedAt = w.clock.now.Add(-10*time.Minute), w.clock.now.Add(-9*time.Minute)
		if w.plan().State != state.AwaitingApproval {
			continue
		}
		w.approve(sre)
		for range 8 { // five of them read the baseline
			w.step()
		}
	}
	if asked < 1 || asked > 3 {
		t.Errorf("it asked %d times", asked)
	}
}

func always(err error) func(string, string) error {
	return func(string, string) error { return err }
}

// A write may conflict or fail again and again. Each run ends, and none repeats without a pause.
func TestWriteWithoutEndComesToAnEnd(t *testing.T) { // 44
	for name, err := range map[string]error{"conflict": cluster.ErrConflict, "no answer": errLost, "gone": cluster.ErrNotFound} {
		for what, c := range map[string]struct {
			kind  string
			begun func(w *world)
			want  []state.ActionState
		}{
			"the patch":        {setArg, func(w *world) { w.until(state.Intent) }, []state.ActionState{state.Superseded, state.NeedsHuman}},
			"the rollback":     {setArg, func(w *world) { w.sick = harmed; w.until(state.RollbackIntent) }, []state.ActionState{state.NeedsHuman}},
			"the isolation":    {restart, func(w *world) { w.until(state.Intent) }, []state.ActionState{state.Superseded, state.NeedsHuman}},
			"the eviction":     {restart, func(w *world) { w.untilNoted("drained") }, []state.ActionState{state.NeedsHuman}},
			"the putting back": {restart, func(w *world) { w.untilNoted("drained"); w.halt = &state.Halt{Actor: sre} }, []state.ActionState{state.NeedsHuman}},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				w := newWorld(t, c.kind, policy.Approve)
				w.plan()
				w.approve(sre)
				c.begun(w)
				id, began, asked := w.actions[0].ID, w.clock.now, 0
				w.cluster.Before = func(string, string) error { asked++; return err }
				for range 300 {
					if a, _ := w.Action(id); a.State.Done() {
						break
					}
					w.step()
				}
				a, _ := w.Action(id)
				if !slices.Contains(c.want, a.State) {
					t.Fatalf("%s after %d attempts in %s: %s %v", a.State, asked, w.clock.now.Sub(began), a.Reason, a.Journal)
				}
				if asked > 60 {
					t.Errorf("%d attempts in %s", asked, w.clock.now.Sub(began))
				}
			})
		}
	}
}

// untilNoted takes steps until the run has a journal entry.
func (w *world) untilNoted(key string) {
	w.t.Helper()
	for range 500 {
		if w.actions[0].Journal[key] != "" {
			return
		}
		w.step()
	}
	w.t.Fatalf("never %s: %s %v", key, w.actions[0].State, w.actions[0].Journal)
}

// The API server refuses requests for a while. The run waits, writes once, and uses the budget
// once.
func TestRefusedForAWhileWritesOnce(t *testing.T) { // 44
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Intent)
	var at []time.Time
	w.cluster.Before = func(string, string) error {
		if at = append(at, w.clock.now); len(at) < 5 {
			return errLost
		}
		return nil
	}
	w.until(state.Succeeded)
	w.wantWrites(1)
	for i := 2; i < len(at); i++ {
		if at[i].Sub(at[i-1]) < at[i-1].Sub(at[i-2])/2 || at[i].Sub(at[i-1]) < 10*time.Second {
			t.Errorf("no back-off: %v", at)
		}
	}
}
