package remediate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate"
	"paramedic/state"
)

// barely is a pool whose cache empties a little under fewer sequences. All that users feel stays.
func barely(pod string, seqs int) map[string]float64 {
	v := exhausted(pod, 256)
	if seqs <= 128 {
		v["kv_usage"] = .91
	}
	return v
}

func TestTroubleThatGoesOnIsNoSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		sick func(string, int) map[string]float64
		says string
	}{
		"preempting as before": {barely, "preemption_rate 25/s → 25/s"},
		"first tokens as late as before": {func(p string, seqs int) map[string]float64 {
			v := exhausted(p, seqs)
			v["ttft_p95"] = 8
			return v
		}, "ttft_p95 8 s → 8 s"},
		"preemptions not measured any more": {func(p string, seqs int) map[string]float64 {
			v := exhausted(p, seqs)
			if seqs <= 128 {
				delete(v, "preemption_rate")
			}
			return v
		}, "preemption_rate could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, remediate.Approve)
			usual := .5
			w.in.Diagnosis.Findings = append(w.in.Diagnosis.Findings, state.Finding{Signal: "ttft_p95", Value: 8, Baseline: &usual, Weight: 2, Unit: "s"})
			w.sick = c.sick
			w.plan()
			w.approve(sre)
			a := w.until(state.NeedsHuman)
			if a.Verify.Verdict != state.Inconclusive || !strings.Contains(a.Reason, c.says) {
				t.Errorf("%s: %s", a.Verify.Verdict, a.Reason)
			}
			w.wantWrites(1)
		})
	}
}

// What ends for a while and is back before the window ends has not ended.
func TestTroubleThatIsBackInTheWindowIsNoSuccess(t *testing.T) {
	w := newWorld(t, setArg, remediate.Approve)
	w.plan()
	w.approve(sre)
	a := w.until(state.Verifying)
	back := a.Verify.Until.Add(-4 * time.Minute)
	w.sick = func(p string, seqs int) map[string]float64 {
		if w.clock.now.After(back) {
			seqs = 256
		}
		return exhausted(p, seqs)
	}
	if a = w.until(state.NeedsHuman); a.Verify.Verdict != state.Inconclusive {
		t.Errorf("%s: %s", a.Verify.Verdict, a.Reason)
	}
}

// A verdict's signal that cannot be read before the write could not show an improvement after it.
func TestUnreadLeadingSignalDeniesTheWrite(t *testing.T) {
	w := newWorld(t, setArg, remediate.Approve)
	w.sick = func(p string, seqs int) map[string]float64 {
		v := exhausted(p, seqs)
		delete(v, "preemption_rate")
		return v
	}
	w.wantDenied(w.plan(), "verifiability")
}

// One odd moment before the write is not what the time after it is compared with.
func TestBaselineIsTheMedianOfAWindow(t *testing.T) {
	w := newWorld(t, setArg, remediate.Approve)
	w.plan()
	w.approve(sre)
	began := w.clock.now
	w.until(state.Admitted)
	w.sick = func(p string, seqs int) map[string]float64 {
		v := exhausted(p, seqs)
		if n := len(w.actions[0].Verify.Before["preemption_rate"]); n == 4 { // the last reading, of the moment of the intent
			v["preemption_rate"] = 400
		}
		return v
	}
	a := w.until(state.Intent)
	if n := len(a.Verify.Before["preemption_rate"]); n != 5 || a.Verify.Baseline["preemption_rate"] != 25 {
		t.Errorf("the baseline is %v, of %v", a.Verify.Baseline, a.Verify.Before)
	}
	if took := w.clock.now.Sub(began); took < 2*time.Minute || took > 3*time.Minute {
		t.Errorf("five readings at intervals of 30s took %s", took)
	}
}

// Readings of before a pause are not of the window before the write.
func TestBaselineIsReadAnewAfterAPause(t *testing.T) {
	w := newWorld(t, setArg, remediate.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Admitted)
	w.step()
	w.clock.now = w.clock.now.Add(5 * time.Minute) // the bot was down
	if a := w.step(); len(a.Verify.Before["kv_usage"]) != 1 {
		t.Errorf("%d readings", len(a.Verify.Before["kv_usage"]))
	}
}

// failing is a pool that answers with errors as soon as its template has fewer sequences.
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
				w.cluster.EditPod("llm", p.Name, func(p *remediate.Pod) { p.Terminating = true })
			}
		}, says: "replicas_ready 5 pods → 3 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, remediate.Approve)
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

// One bad reading while a rollout goes on is what rollouts cost.
func TestOneBadReadingEndsNoRollout(t *testing.T) {
	w := newWorld(t, setArg, remediate.Approve)
	w.cluster.Stuck = true
	w.plan()
	w.approve(sre)
	w.until(state.Applied)
	began := w.clock.now
	w.sick = func(p string, seqs int) map[string]float64 {
		v := exhausted(p, seqs)
		if w.clock.now.Sub(began) < time.Minute {
			v["error_rate"] = .4
		}
		return v
	}
	for w.clock.now.Sub(began) < 10*time.Minute {
		if a := w.step(); a.State != state.Applied {
			t.Fatalf("%s: %s", a.State, a.Steps[len(a.Steps)-1].Text)
		}
	}
}

// The others carry what an isolated worker carried. If they fail at that, it serves again.
func TestGuardrailGivesADrainedWorkerBack(t *testing.T) {
	w := newWorld(t, restart, remediate.Approve)
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
	w := newWorld(t, setArg, remediate.Approve)
	w.sick = failing
	w.plan()
	w.approve(sre)
	a := w.until(state.RolledBack)
	if n := len(a.Verify.Undone["error_rate"]); n < 10 || !strings.Contains(a.Reason, "error_rate is 1 % again") {
		t.Errorf("%d samples: %s", n, a.Reason)
	}
}

func TestRollbackThatHelpsNothingNeedsAPerson(t *testing.T) { // 52
	for name, c := range map[string]struct {
		after func(w *world)
		says  string
	}{
		"still bad": {func(w *world) { w.sick = func(p string, _ int) map[string]float64 { return failing(p, 64) } }, "error_rate is still"},
		"not known": {func(w *world) { w.blind = true }, "could not be read"},
		"unreadable": {func(w *world) {
			w.sick = func(p string, n int) map[string]float64 { v := exhausted(p, n); delete(v, "error_rate"); return v }
		}, "could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, remediate.Approve)
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

func (w *world) workers() []remediate.Pod {
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

// An autoscaler takes a worker when the fix has made room. A worker that dies is harm.
func TestWorkerThatIsNotWantedIsNoHarm(t *testing.T) {
	for name, c := range map[string]struct {
		wanted float64
		end    state.ActionState
	}{"taken by the autoscaler": {4, state.Succeeded}, "died": {5, state.RolledBack}, "added and not ready yet": {7, state.Succeeded}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, remediate.Approve)
			w.plan()
			w.approve(sre)
			w.until(state.Verifying)
			w.cluster.Edit(pool, "horizontal-pod-autoscaler", func(doc map[string]any) {
				doc["spec"].(map[string]any)["replicas"] = c.wanted
			})
			if c.wanted <= 5 {
				w.cluster.EditPod("llm", w.workers()[0].Name, func(p *remediate.Pod) { p.Terminating = true })
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

// While the API server cannot be read, the number of ready workers is unknown, which is no loss.
func TestUnreadPoolIsNoHarm(t *testing.T) {
	w := newWorld(t, restart, remediate.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Verifying)
	w.cfg.Clusters["prod"] = halfBlind{w.cluster}
	a := w.until(state.NeedsHuman)
	if a.Verify.Verdict == state.Worse {
		t.Errorf("%s: %s", a.Verify.Verdict, a.Reason)
	}
}

// halfBlind reads pods and no workloads.
type halfBlind struct{ remediate.Cluster }

func (halfBlind) Workload(context.Context, remediate.Ref) (remediate.Workload, error) {
	return remediate.Workload{}, errLost
}

func TestTroubleThatComesBackCountsAsFailed(t *testing.T) { // 53
	for name, c := range map[string]struct {
		opened time.Duration // of the next incident, after the success
		ended  bool          // the incident that was treated
		failed bool
	}{
		"within the hour":        {50 * time.Minute, true, true},
		"after the hour":         {70 * time.Minute, true, false},
		"it had never been over": {70 * time.Minute, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, remediate.Approve)
			w.plan()
			w.approve(sre)
			a := w.until(state.Succeeded)
			at := a.Steps[len(a.Steps)-1].At
			w.sick = func(p string, _ int) map[string]float64 { return exhausted(p, 256) }
			old := w.in
			if c.ended {
				old.Status = state.StatusResolved
			}
			w.more = append(w.more, old)
			w.in.ID, w.in.OpenedAt, w.in.StartedAt = "INC-2", at.Add(c.opened), at.Add(c.opened)
			w.clock.now = at.Add(8 * time.Hour)
			denied := false
			for _, g := range w.plan().Guards {
				denied = denied || g.Guard == "history" && g.Decision == state.Deny && strings.Contains(g.Reason, "did not help")
			}
			if denied != c.failed {
				t.Errorf("denied: %v, %+v", denied, w.actions[0].Guards)
			}
		})
	}
}

// A wrong rule that fires everywhere trips the breaker. No new run begins; a run under way is still
// verified and undone.
func TestTrippedBreakerStopsNoRollback(t *testing.T) { // 33
	w := newWorld(t, setArg, remediate.Auto)
	w.sick = harmed
	w.plan()
	w.until(state.Verifying)
	run := w.actions[0].ID
	for _, other := range []string{"one", "two"} {
		at := w.clock.now.Add(-time.Minute)
		w.actions = append(w.actions, state.Action{ID: state.ActionID("ACT-" + other), Incident: state.IncidentID("INC-" + other), Kind: setArg, State: state.RolledBack,
			Target: state.Target{Cluster: "prod", Namespace: other, Pool: other}, Steps: []state.ActionStep{{State: state.Intent, At: at}, {State: state.RolledBack, At: at}}})
	}
	w.until(state.RolledBack)
	if a, _ := w.Action(run); a.State != state.RolledBack || !slices.Contains(w.args(), "--max-num-seqs=256") {
		t.Errorf("%s %v", a.State, w.args())
	}
	writes := len(w.cluster.Changes())
	w.in.ID = "INC-2"
	w.wantDenied(w.plan(), "breaker")
	w.wantWrites(writes)
}

// A run that a newer version recorded may mean by its fields what this one does not know.
func TestNewerRecordIsLeftAlone(t *testing.T) { // 55
	for _, at := range []state.ActionState{state.Approved, state.Intent, state.Verifying} {
		w := newWorld(t, setArg, remediate.Approve)
		w.plan()
		w.approve(sre)
		w.until(at)
		writes := len(w.cluster.Changes())
		w.actions[0].Form = state.ActionForm + 1
		res := w.bot().Run.Deliver(context.Background(), state.Effect{ID: "run", Action: w.actions[0].ID})
		if len(res.Inputs) > 0 || res.Outcome.Done || res.Outcome.RetryAt.IsZero() && w.actions[0].NextAt.IsZero() {
			t.Errorf("%s: %+v", at, res)
		}
		w.in.Status = state.StatusResolved
		if out := w.bot().Plan.Deliver(context.Background(), state.Effect{ID: "plan", Incident: w.in.ID}); len(out.Inputs) > 0 {
			t.Errorf("%s: called off: %+v", at, out.Inputs)
		}
		w.wantWrites(writes)
	}
}
