package remediate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

const poll = 10 * time.Second

func ago(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339Nano) }

func TestCapIsWrittenOnlyOverWhatWasPlanned(t *testing.T) {
	begin := func() *runCase { return newRun(setEngineArgKind, state.Intent) }
	failing := func(err error) func(*runCase) { return func(b *runCase) { b.p.patchErr = err } }
	runSteps(t, begin, setEngineArg{}.apply, []stepCase{
		{name: "as planned", to: state.Applied, says: "wrote the new value", wrote: "patch"},
		{name: "written already", set: func(b *runCase) { b.p.w.Annotations[cluster.OpIDAnnotation] = "op" }, to: state.Applied, says: "has the new value"},
		{name: "of another UID", set: func(b *runCase) { b.p.w.UID = "dep-2" }, to: state.Superseded, says: "replaced the workload"},
		{name: "deleted", set: func(b *runCase) { b.p.wErr = cluster.ErrNotFound }, to: state.Superseded, says: "replaced the workload"},
		{name: "not readable", set: func(b *runCase) { b.p.wErr = errAway }, to: state.Intent, wait: poll},
		{name: "another value", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = "--max-num-seqs=64" }, to: state.Superseded, says: "changed the value before the write"},
		{name: "another container list", set: func(b *runCase) { b.p.w.Containers = nil }, to: state.Superseded, says: "changed the value before the write"},
		{name: "fewer args", set: func(b *runCase) { b.p.w.Containers[0].Args = nil }, to: state.Superseded, says: "changed the value before the write"},
		{name: "a place that is none", set: func(b *runCase) { b.act.Write.Path = "/spec/replicas" }, to: state.Superseded, says: "changed the value before the write"},
		{name: "a container that is none", set: func(b *runCase) { b.act.Write.Path = "/spec/template/spec/containers/x/args/0" }, to: state.Superseded, says: "changed the value before the write"},
		{name: "an arg that is none", set: func(b *runCase) { b.act.Write.Path = "/spec/template/spec/containers/0/args/x" }, to: state.Superseded, says: "changed the value before the write"},
		{name: "in the command", set: func(b *runCase) {
			b.act.Write.Path = "/spec/template/spec/containers/0/command/1"
			b.p.w.Containers[0].Command, b.p.w.Containers[0].Args = []string{"vllm", "--max-num-seqs=100"}, nil
		}, to: state.Applied, says: "wrote the new value", wrote: "patch"},
		{name: "appended", set: func(b *runCase) {
			b.act.Write.Path, b.act.Write.Old = "/spec/template/spec/containers/0/args/1", ""
		}, to: state.Applied, says: "wrote the new value", wrote: "patch"},
		{name: "after a conflict", set: func(b *runCase) { b.note("conflict", "x") }, to: state.Superseded, says: "spec since the plan"},
		{name: "called off", set: func(b *runCase) {
			b.cfg.View.(*remediatetest.View).Recorded = &state.Action{Journal: map[string]string{state.CalledOff: "asha"}}
		}, to: state.Denied, says: "called off by asha"},
		{name: "not called off", set: func(b *runCase) { b.cfg.View.(*remediatetest.View).Recorded = b.act }, to: state.Applied, wrote: "patch"},
		{name: "halted", set: func(b *runCase) { b.cfg.View.(*remediatetest.View).Halt = &state.Halt{} }, to: state.Denied, says: "halted"},
		{name: "opted out", set: func(b *runCase) { b.optedOut = true }, to: state.Denied, says: "opted out"},
		{name: "as old as it may be", set: func(b *runCase) { b.act.Write.At = noon.Add(-freshIntent) }, to: state.Applied, wrote: "patch"},
		{name: "older: the guards deny", set: func(b *runCase) { b.act.Write.At = noon.Add(-freshIntent - moment) }, to: state.Denied, says: "stopped before the write"},
		{name: "nearly far too old: the guards deny", set: func(b *runCase) { b.act.Write.At = noon.Add(-10 * time.Minute) }, to: state.Denied, says: "stopped before the write"},
		{name: "far too old", set: func(b *runCase) { b.act.Write.At = noon.Add(-10*time.Minute - moment) }, to: state.Superseded, says: "delayed for over 10m"},
		{name: "conflict", set: failing(cluster.ErrConflict), to: state.Intent, wrote: "patch"},
		{name: "forbidden", set: failing(cluster.ErrForbidden), to: state.Denied, says: "Kubernetes refused the ", wrote: "patch"},
		{name: "refused", set: failing(cluster.ErrRefused), to: state.Denied, says: "Kubernetes refused the ", wrote: "patch"},
		{name: "answer lost", set: failing(errAway), to: state.Intent, wait: poll, wrote: "patch"},
		{name: "answer lost for long", set: func(b *runCase) { failing(errAway)(b); b.note("trouble", ago(10*time.Minute+moment)) },
			to: state.NeedsHuman, says: "could not reach the cluster for 10m", wrote: "patch"},
		{name: "answer lost for a while", set: func(b *runCase) { failing(errAway)(b); b.note("trouble", ago(10*time.Minute)) },
			to: state.Intent, wait: time.Minute, wrote: "patch"},
	})
}

func TestCapIsLiveWhenItsRolloutIs(t *testing.T) {
	begin := func() *runCase { return newRun(setEngineArgKind, state.Applied) }
	since := func(d time.Duration) func(*runCase) {
		return func(b *runCase) { b.act.Steps[1].At = noon.Add(-d); b.p.w.Updated = 3 }
	}
	ready := func(now int, before float64) func(*runCase) { // one worker may have found no GPU
		return func(b *runCase) { b.p.w.Ready, b.act.Verify.Baseline = now, map[string]float64{readySignal: before} }
	}
	runSteps(t, begin, setEngineArg{}.live, []stepCase{
		{name: "complete", to: state.Verifying, says: "rollout is complete"},
		{name: "rolling", set: since(time.Minute), to: state.Applied, wait: poll},
		{name: "rolled, and not ready", set: func(b *runCase) { b.p.w.Ready = 4 }, to: state.Applied, wait: poll},
		{name: "rolled, and as many ready as before", set: ready(4, 4), to: state.Verifying, says: "rollout is complete"},
		{name: "rolled, and fewer ready than before", set: ready(3, 4), to: state.Applied, wait: poll},
		{name: "rolled, and none ready as before", set: ready(0, 0), to: state.Applied, wait: poll},
		{name: "rolling, and as many ready as before", set: func(b *runCase) { since(time.Minute)(b); ready(4, 4)(b) }, to: state.Applied, wait: poll},
		{name: "rolling for as long as it may", set: since(30 * time.Minute), to: state.Applied, wait: poll},
		{name: "rolling for longer", set: since(30*time.Minute + moment), to: state.RollbackIntent, says: "has not progressed for 30m"},
		{name: "rolling for longer, and progressing", set: func(b *runCase) {
			since(30*time.Minute + moment)(b)
			b.note("progress_applied", "2")
		}, to: state.Applied, wait: poll},
		{name: "rolling for longer, and progressed a while ago", set: func(b *runCase) {
			since(60 * time.Minute)(b)
			b.note("progress_applied", "8")
			b.note("progress_at_applied", ago(29*time.Minute))
		}, to: state.Applied, wait: poll},
		{name: "rolling for longer, seen by no controller", set: func(b *runCase) {
			since(30*time.Minute + moment)(b)
			b.note("progress_applied", "2")
			b.p.w.Generation = b.p.w.Observed + 1
		}, to: state.RollbackIntent, says: "has not progressed for 30m"},
		{name: "another image since", set: func(b *runCase) {
			b.note(keyContainers, containersOf(b.p.w))
			b.p.w.Containers[0].Image = "vllm/vllm-openai:another"
		}, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "scaled since", set: func(b *runCase) {
			b.note(keyContainers, containersOf(b.p.w))
			b.p.w.Replicas, b.p.w.Updated, b.p.w.Ready = 7, 7, 7
		}, to: state.Verifying, says: "rollout is complete"},
		{name: "not readable", set: func(b *runCase) { b.p.wErr = errAway }, to: state.Applied, wait: poll},
		{name: "deleted", set: func(b *runCase) { b.p.w, b.p.wErr = cluster.Workload{}, cluster.ErrNotFound }, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "of another UID", set: func(b *runCase) { b.p.w.UID = "dep-2" }, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "another value", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = "--max-num-seqs=64" }, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "another writer of the value", set: func(b *runCase) { b.p.w.Annotations[cluster.OpIDAnnotation] = "op-2" }, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "no place any more", set: func(b *runCase) { b.p.w.Containers, b.act.Write.New = nil, "" }, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "put back by another hand", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = b.act.Write.Old }, to: state.Superseded, says: "put the old value back"},
		{name: "put back on another UID", set: func(b *runCase) { b.p.w.Containers[0].Args[0], b.p.w.UID = b.act.Write.Old, "dep-2" }, to: state.NeedsHuman,
			says: "changed the workload after the write"},
		{name: "put back by a declared owner", set: func(b *runCase) {
			b.p.w.Containers[0].Args[0] = b.act.Write.Old
			b.p.w.Labels = map[string]string{"argocd.argoproj.io/instance": "llama"}
		}, to: state.Superseded, says: "make the change in its source"},
	})
}

func TestChangedCapIsNoLongerVerified(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*runCase)
		to     state.ActionState
		failed bool
	}{
		"still ours":     {set: func(*runCase) {}},
		"not readable":   {set: func(b *runCase) { b.p.wErr = errAway }, failed: true},
		"deleted":        {set: func(b *runCase) { b.p.wErr = cluster.ErrNotFound }, to: state.NeedsHuman},
		"another value":  {set: func(b *runCase) { b.p.w.Containers[0].Args[0] = "--max-num-seqs=64" }, to: state.NeedsHuman},
		"another writer": {set: func(b *runCase) { b.p.w.Annotations[cluster.OpIDAnnotation] = "x" }, to: state.NeedsHuman},
		"put back":       {set: func(b *runCase) { b.p.w.Containers[0].Args[0] = b.act.Write.Old }, to: state.Superseded},
	} {
		b := newRun(setEngineArgKind, state.Verifying)
		c.set(b)
		if got, err := (setEngineArg{}).still(t.Context(), b.stage); got.to != c.to || (err != nil) != c.failed {
			t.Errorf("%s: %s %v", name, got.to, err)
		}
	}
}

func TestCapIsRolledBackOnlyOverItself(t *testing.T) {
	begin := func() *runCase { return newRun(setEngineArgKind, state.RollbackIntent) }
	failing := func(err error) func(*runCase) { return func(b *runCase) { b.p.patchErr = err } }
	done := func(change func(*runCase)) func(*runCase) {
		return func(b *runCase) {
			b.p.w.Annotations[cluster.OpIDAnnotation], b.p.w.Containers[0].Args[0] = "op"+undone, b.act.Write.Old
			change(b)
		}
	}
	runSteps(t, begin, setEngineArg{}.undo, []stepCase{
		{name: "ours", to: state.RollbackIntent, wrote: "inverse"},
		{name: "undone and live", set: done(func(*runCase) {}), to: state.RolledBack, says: "live again (because)"},
		{name: "undone and rolling", set: done(func(b *runCase) { b.p.w.Updated = 1 }), to: state.RollbackIntent, wait: poll},
		{name: "undone, and as many ready as before", set: done(func(b *runCase) {
			b.p.w.Ready, b.act.Verify.Baseline = 4, map[string]float64{readySignal: 4}
		}), to: state.RolledBack},
		{name: "undone and not ready", set: done(func(b *runCase) { b.p.w.Ready = 1 }), to: state.RollbackIntent, wait: poll},
		{name: "undone, rolling as long as it may", set: done(func(b *runCase) { b.p.w.Updated = 1; b.act.Steps[1].At = noon.Add(-30 * time.Minute) }), to: state.RollbackIntent, wait: poll},
		{name: "undone, rolling for longer", set: done(func(b *runCase) { b.p.w.Updated = 1; b.act.Steps[1].At = noon.Add(-30*time.Minute - moment) }),
			to: state.NeedsHuman, says: "rollout is not complete"},
		{name: "not readable", set: func(b *runCase) { b.p.wErr = errAway }, to: state.RollbackIntent, wait: poll},
		{name: "deleted", set: func(b *runCase) { b.p.wErr = cluster.ErrNotFound }, to: state.NeedsHuman, says: "replaced the workload"},
		{name: "of another UID", set: func(b *runCase) { b.p.w.UID = "dep-2" }, to: state.NeedsHuman, says: "replaced the workload"},
		{name: "another value", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = "--max-num-seqs=64" }, to: state.NeedsHuman, says: "does not roll back over that change"},
		{name: "put back by another hand", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = b.act.Write.Old }, to: state.Superseded, says: "put the old value back"},
		{name: "opted out", set: func(b *runCase) { b.optedOut = true }, to: state.NeedsHuman, says: "to undo it by hand: kubectl"},
		{name: "forbidden", set: failing(cluster.ErrForbidden), to: state.NeedsHuman, says: "refused the rollback", wrote: "inverse"},
		{name: "refused", set: failing(cluster.ErrRefused), to: state.NeedsHuman, says: "refused the rollback", wrote: "inverse"},
		{name: "answer lost", set: failing(errAway), to: state.RollbackIntent, wait: poll, wrote: "inverse"},
	})
}

// The runner reads the namespace before each effect. An opt-out stops it, and it waits if the read
// fails.
func TestNamespaceIsReadBeforeEachEffect(t *testing.T) {
	for _, st := range []state.ActionState{state.Intent, state.RollbackIntent} {
		begin := func() *runCase { return newRun(setEngineArgKind, st) }
		step := func(ctx context.Context, s *stage) advance { return (&Runner{cfg: s.cfg}).step(ctx, s, setEngineArg{}) }
		ends := stepCase{name: fmt.Sprintf("%s, opted out", st), set: func(b *runCase) { b.p.ns.Labels = nil }, to: state.Denied,
			says: "opted out"}
		if st == state.RollbackIntent {
			ends.to = state.NeedsHuman
		}
		runSteps(t, begin, step, []stepCase{ends,
			{name: fmt.Sprintf("%s, not readable", st), set: func(b *runCase) { b.p.nsErr = errAway }, to: st, wait: poll}})
	}
	// A written change is verified in every namespace.
	b := newRun(setEngineArgKind, state.Applied)
	b.p.nsErr = errAway
	if got := (&Runner{cfg: b.cfg}).step(t.Context(), b.stage, setEngineArg{}); got.to != state.Verifying {
		t.Errorf("%s: %s", got.to, got.text)
	}
}

// A person removes another argument, and the flag that Paramedic appended moves.
func TestMovedFlagIsNotPutBack(t *testing.T) {
	b := newRun(setEngineArgKind, state.Applied)
	c := &b.p.w.Containers[0]
	c.Args = []string{"--model=m", "--max-num-seqs=50"}
	b.act.Write.Old, b.act.Write.Path = "", "/spec/template/spec/containers/0/args/2"
	if got := (setEngineArg{}).live(t.Context(), b.stage); got.to != state.NeedsHuman {
		t.Errorf("moved: %s, %q", got.to, got.text)
	}
	c.Args = []string{"--model=m"}
	if got := (setEngineArg{}).live(t.Context(), b.stage); got.to != state.Superseded {
		t.Errorf("taken away: %s, %q", got.to, got.text)
	}
}
