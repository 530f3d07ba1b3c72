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

// barely returns the signals of a pool whose cache gets a little emptier with fewer sequences,
// while users see no change.
func barely(pod string, seqs int) map[string]float64 {
	v := exhausted(pod, 256)
	if seqs <= 128 {
		v["kv_usage"] = .91
	}
	return v
}

func TestPersistentSymptomIsNoSuccess(t *testing.T) {
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
		}, "too few samples of preemption_rate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			usual := .5
			w.in.Diagnosis.Findings = append(w.in.Diagnosis.Findings,
				state.Finding{Signal: "ttft_p95", Value: 8, Baseline: &usual, Weight: 2, Unit: "s"})
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

// A symptom that stops and returns before the window ends has not ended.
func TestSymptomBackInTheWindowIsNoSuccess(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
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

// A signal of the verdict that cannot be read before the write could not show an improvement after
// it.
func TestUnreadLeadingSignalDeniesTheWrite(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.sick = func(p string, seqs int) map[string]float64 {
		v := exhausted(p, seqs)
		delete(v, "preemption_rate")
		return v
	}
	w.wantDenied(w.plan(), "verifiability")
}

// First tokens may be late for many reasons. They alone do not show that this remedy helped.
func TestUnmeasurableVerdictIsDenied(t *testing.T) {
	usual := .5
	for _, f := range []state.Finding{
		{Signal: "ttft_p95", Value: 8, Baseline: &usual, Weight: 5, Unit: "s"},
		{Signal: "requests_running", Value: 80, Baseline: &usual, Weight: 5, Unit: "requests"},
	} {
		w := newWorld(t, setArg, policy.Approve)
		w.in.Diagnosis.Findings = []state.Finding{f}
		w.sick = func(p string, n int) map[string]float64 {
			v := exhausted(p, n)
			delete(v, "preemption_rate")
			return v
		}
		w.wantDenied(w.plan(), "verifiability")
	}
}

// The run does not wait for a window in which nothing can be read, because the guards return the
// reason.
func TestBlindBaselineIsDeniedAtOnce(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Admitted)
	w.blind = true
	if a := w.step(); a.State != state.Denied {
		t.Errorf("%s", a.State)
	}
}

// One outlier before the write does not move the baseline.
func TestBaselineIsTheMedianOfAWindow(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
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

// Readings from before a pause are not part of the window.
func TestBaselineIsReadAnewAfterAPause(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Admitted)
	w.step()
	w.clock.now = w.clock.now.Add(5 * time.Minute) // the bot was down
	if a := w.step(); len(a.Verify.Before["kv_usage"]) != 1 {
		t.Errorf("%d readings", len(a.Verify.Before["kv_usage"]))
	}
}

// While the API server cannot be read, the number of ready workers is unknown, which is no loss.
func TestUnreadPoolIsNoHarm(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.approvedUntil(state.Verifying)
	w.cfg.Clusters["prod"] = halfBlind{w.cluster}
	a := w.until(state.NeedsHuman)
	if a.Verify.Verdict != state.VerifyError {
		t.Errorf("%s: %s", a.Verify.Verdict, a.Reason)
	}
}

// halfBlind reads pods and no workloads.
type halfBlind struct{ cluster.Cluster }

func (halfBlind) Workload(context.Context, cluster.Ref) (cluster.Workload, error) {
	return cluster.Workload{}, errLost
}

func TestReturningSymptomCountsAsFailure(t *testing.T) { // 53
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
			w := newWorld(t, setArg, policy.Approve)
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

// A wrong rule that fires everywhere trips the breaker. No new run begins. A run under way is still
// verified and undone.
func TestTrippedBreakerStopsNoRollback(t *testing.T) { // 33
	w := newWorld(t, setArg, policy.Auto)
	w.sick = harmed
	w.plan()
	w.until(state.Verifying)
	run := w.actions[0].ID
	for _, other := range []string{"one", "two"} {
		at := w.clock.now.Add(-time.Minute)
		w.actions = append(w.actions, state.Action{ID: state.ActionID("ACT-" + other), Incident: state.IncidentID("INC-" + other),
			Kind: setArg, State: state.RolledBack,
			Target: state.Target{Cluster: "prod", Namespace: other, Pool: other}, Steps: []state.ActionStep{{State: state.Intent, At: at},
				{State: state.RolledBack, At: at}}})
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

// A newer version may give the run's fields a meaning that this version does not know.
func TestNewerRecordIsLeftAlone(t *testing.T) { // 55
	for _, at := range []state.ActionState{state.Approved, state.Intent, state.Verifying} {
		w := newWorld(t, setArg, policy.Approve)
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

// A window does not span a hold or a pause.
func TestHoldBeginsTheBaselineAnew(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Admitted)
	for range 3 {
		w.step()
	}
	night := policy.FreezeWindow{Name: "night", Start: w.clock.now, End: w.clock.now.Add(3 * time.Minute)}
	w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{night}}}
	if a := w.step(); a.State != state.Admitted || len(a.Verify.Before) != 0 {
		t.Fatalf("%s: %v", a.State, a.Verify.Before)
	}
	a := w.until(state.Intent)
	if a.Steps[len(a.Steps)-1].At.Before(night.End.Add(2 * time.Minute)) {
		t.Errorf("the window ended at %s, the hold at %s", a.Steps[len(a.Steps)-1].At, night.End)
	}
}

// Some gateways report latencies of the pool and not of its workers.
func TestPoolsOwnValueIsMeasured(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Gauge = pooled{w}
	w.plan()
	w.approve(sre)
	a := w.until(state.Succeeded)
	if len(a.Verify.Samples["ttft_p95"]) < 10 || a.Verify.Baseline["ttft_p95"] != 8 {
		t.Errorf("%v, %v", a.Verify.Baseline, a.Verify.Samples)
	}
}

type pooled struct{ *world }

func (p pooled) Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time, signals []string) state.Evidence {
	ev := p.world.Read(ctx, cluster, scope, onset, signals)
	for i := range ev.Samples {
		if ev.Samples[i].Signal == "ttft_p95" {
			ev.Samples[i].Entity.Pod = ""
		}
	}
	return ev
}
