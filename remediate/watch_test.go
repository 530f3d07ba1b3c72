package remediate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// failing returns the signals of a pool that answers with errors when its template has fewer
// sequences.
func failing(pod string, seqs int) map[string]float64 {
	v := exhausted(pod, seqs)
	if seqs <= 128 {
		v["error_rate"] = .4
	}
	return v
}

func TestGuardrailEndsARolloutThatDoesHarm(t *testing.T) { // 51
	for name, c := range map[string]struct {
		sick func(string, int) map[string]float64
		lose func(*world)
		says string
	}{
		"errors": {sick: failing, says: "error_rate 1 % → 40 %"},
		"workers lost": {sick: exhausted, lose: func(w *world) {
			for _, p := range w.workers()[:2] {
				w.cluster.EditPod("llm", p.Name, func(p *cluster.Pod) { p.Terminating = true })
			}
		}, says: "replicas_ready 5 pods → 3 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			w.cluster.Stuck = true
			w.sick = c.sick
			w.plan()
			w.approve(sre)
			w.until(state.Applied)
			if c.lose != nil {
				c.lose(w)
			}
			began := w.clock.now
			a := w.until(state.RollbackIntent)
			if took := w.clock.now.Sub(began); took > 5*time.Minute || !strings.Contains(a.Steps[len(a.Steps)-1].Text, c.says) {
				t.Errorf("after %s: %s", took, a.Steps[len(a.Steps)-1].Text)
			}
			if a.Verify.Verdict != state.Worse {
				t.Errorf("the verdict is %q", a.Verify.Verdict)
			}
		})
	}
}

// Rollouts cause single bad readings, and an autoscaler may remove a worker meanwhile.
func TestRolloutCostIsNoBreach(t *testing.T) {
	for name, cost := range map[string]func(w *world, since time.Duration){
		"errors now and then": func(w *world, since time.Duration) {
			w.sick = exhausted
			if since%(90*time.Second) < 45*time.Second {
				w.sick = failing
			}
		},
		"a few more errors": func(w *world, _ time.Duration) {
			w.sick = func(p string, n int) map[string]float64 { v := exhausted(p, n); v["error_rate"] = .08; return v }
		},
		"errors that are not known": func(w *world, _ time.Duration) {
			w.sick = func(p string, n int) map[string]float64 { v := exhausted(p, n); delete(v, "error_rate"); return v }
		},
		"a worker that is not wanted": func(w *world, _ time.Duration) {
			w.scale(4)
			w.cluster.EditPod("llm", w.workers()[0].Name, func(p *cluster.Pod) { p.Terminating = true })
		},
		"Prometheus is down":     func(w *world, _ time.Duration) { w.blind = true },
		"the API server is down": func(w *world, _ time.Duration) { w.cfg.Clusters["prod"] = podless{w.cluster} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			w.cluster.Stuck = true
			w.plan()
			w.approve(sre)
			w.until(state.Applied)
			began := w.clock.now
			for w.clock.now.Sub(began) < 20*time.Minute {
				cost(w, w.clock.now.Sub(began))
				if a := w.step(); a.State != state.Applied {
					t.Fatalf("%s: %s", a.State, a.Steps[len(a.Steps)-1].Text)
				}
			}
		})
	}
}

// podless reads workloads and no pods.
type podless struct{ cluster.Cluster }

func (podless) Pods(context.Context, cluster.Workload) ([]cluster.Pod, error) {
	return nil, errLost
}

func (w *world) scale(to float64) {
	w.cluster.Edit(pool, "horizontal-pod-autoscaler", func(doc map[string]any) {
		doc["spec"].(map[string]any)["replicas"] = to
	})
}

// An eviction cannot be undone, so a person learns at once that the other workers fail.
func TestIrreversibleHarmNeedsHuman(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.cluster.StartDelay = time.Hour
	w.plan()
	w.approve(sre)
	w.until(state.Applied)
	w.sick = func(p string, n int) map[string]float64 { v := leaking("", n); v["error_rate"] = .5; return v }
	began := w.clock.now
	a := w.until(state.NeedsHuman)
	if took := w.clock.now.Sub(began); took > 5*time.Minute || !strings.Contains(a.Reason, "this action has no rollback") {
		t.Errorf("after %s: %s", took, a.Reason)
	}
}

// The change itself takes the evicted worker away.
func TestEvictedWorkerIsNotCountedAsLost(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.cluster.StartDelay = 15 * time.Minute
	w.plan()
	w.approve(sre)
	w.until(state.Succeeded)
}

func TestEditAfterTheRollbackIsNotClaimed(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.sick = failing
	w.plan()
	w.approve(sre)
	w.until(state.RollbackIntent)
	w.step()
	w.step()
	w.wantWrites(2)
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=64")
	a := w.until(state.NeedsHuman)
	if !strings.Contains(a.Reason, "changed the workload after the rollback") || !slices.Contains(w.args(), "--max-num-seqs=64") {
		t.Errorf("%s %v", a.Reason, w.args())
	}
	w.wantWrites(2)
}

// The other workers carry the isolated worker's load. If they fail at that, it serves again.
func TestGuardrailGivesADrainedWorkerBack(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.sick = func(pod string, seqs int) map[string]float64 {
		v := leaking(pod, seqs)
		if pod == "vllm-llama-1" {
			v["requests_running"] = 3
		}
		if p, err := w.cluster.Pod(context.Background(), "llm", "vllm-llama-1"); err == nil && p.Labels["serving"] != "yes" {
			v["error_rate"] = .5
		}
		return v
	}
	w.plan()
	w.approve(sre)
	a := w.until(state.NeedsHuman)
	p, err := w.cluster.Pod(context.Background(), "llm", "vllm-llama-1")
	if err != nil || p.Labels["serving"] != "yes" || evictions(w.cluster) != 0 || !strings.Contains(a.Reason, "error_rate 0 % → 50 %") {
		t.Errorf("%s; %v %v", a.Reason, p.Labels, err)
	}
}

func TestRollbackIsVerified(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.sick = failing
	w.plan()
	w.approve(sre)
	for a := w.actions[0]; len(a.Verify.Undone) == 0 && !a.State.Done(); {
		a = w.step()
		since, err := time.Parse(time.RFC3339Nano, a.Journal["restored"])
		if len(a.Verify.Undone) > 0 && (err != nil || w.clock.now.Sub(since) < 2*time.Minute) {
			t.Errorf("sampled before it settled: %v, restored %s (%v)", a.Verify.Undone, since, err)
		}
	}
	a := w.until(state.RolledBack)
	if n := len(a.Verify.Undone["error_rate"]); n < 10 || !strings.Contains(a.Reason, "error_rate is 1 % again") {
		t.Errorf("%d samples: %s", n, a.Reason)
	}
}

func TestUselessRollbackNeedsHuman(t *testing.T) { // 52
	for name, c := range map[string]struct {
		after func(w *world)
		says  string
	}{
		"still bad": {func(w *world) { w.sick = func(p string, _ int) map[string]float64 { return failing(p, 64) } }, "error_rate is still"},
		"not known": {func(w *world) { w.blind = true }, "no fresh samples show whether the rollback helped"},
		"unreadable": {func(w *world) {
			w.sick = func(p string, n int) map[string]float64 { v := exhausted(p, n); delete(v, "error_rate"); return v }
		}, "no fresh samples show whether the rollback helped"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			w.sick = failing
			w.plan()
			w.approve(sre)
			w.until(state.RollbackIntent)
			c.after(w)
			a := w.until(state.NeedsHuman)
			if !slices.Contains(w.args(), "--max-num-seqs=256") || !strings.Contains(a.Reason, c.says) {
				t.Errorf("%v %s", w.args(), a.Reason)
			}
			w.wantWrites(2) // the change and one rollback
			w.take(w.bot().Run.Deliver(context.Background(), state.Effect{Action: a.ID}).Inputs)
			w.wantWrites(2)
			w.in.ID = "INC-2"
			w.actions[0].Journal[state.Released] = "asha"
			w.clock.now = w.clock.now.Add(7 * time.Hour)
			w.sick, w.blind = exhausted, false
			w.wantDenied(w.plan(), "history")
		})
	}
}

// A guardrail that was breached during the rollout has to recover after the rollback, too.
func TestRollbackOfARolloutIsVerified(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cluster.Stuck = true
	w.sick = failing
	w.plan()
	w.approve(sre)
	w.until(state.RollbackIntent)
	w.cluster.Stuck = false
	w.sick = func(p string, _ int) map[string]float64 { return failing(p, 64) }
	if a := w.until(state.NeedsHuman); !strings.Contains(a.Reason, "error_rate is still 40 %, and was 1 %") {
		t.Error(a.Reason)
	}
}

func (w *world) workers() []cluster.Pod {
	w.t.Helper()
	wl, err := w.cluster.Workload(context.Background(), pool)
	if err != nil {
		w.t.Fatal(err)
	}
	ps, err := w.cluster.Pods(context.Background(), wl)
	if err != nil {
		w.t.Fatal(err)
	}
	return ps
}

// An autoscaler may remove a worker after the fix. A worker that dies is harm.
func TestScaledDownWorkerIsNoHarm(t *testing.T) {
	for name, c := range map[string]struct {
		wanted float64
		end    state.ActionState
	}{"taken by the autoscaler": {4, state.Succeeded}, "died": {5, state.RolledBack}, "added and not ready yet": {7, state.Succeeded}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			w.plan()
			w.approve(sre)
			w.until(state.Verifying)
			w.scale(c.wanted)
			if c.wanted <= 5 {
				w.cluster.EditPod("llm", w.workers()[0].Name, func(p *cluster.Pod) { p.Terminating = true })
			}
			id := w.actions[0].ID
			for range 200 {
				if a, _ := w.Action(id); a.State == c.end || a.State.Done() {
					break
				}
				w.step()
			}
			if a, _ := w.Action(id); a.State != c.end {
				t.Errorf("%s: %s", a.State, a.Reason)
			}
		})
	}
}
