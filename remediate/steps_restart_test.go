package remediate

import (
	"context"
	"math"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

// label changes the worker's label, which decides whether it serves.
func (b *runCase) label(value, op string) *runCase {
	b.p.pod.Labels["serving"], b.p.pod.Annotations[cluster.OpIDAnnotation] = value, op
	return b
}

// isolatedWorker returns a run whose worker was taken out of serving a minute ago.
func isolatedWorker() *runCase {
	b := newRun(restartWorkerKind, state.Intent).label(isolated, "op")
	b.note(keyIsolated, ago(time.Minute))
	return b
}

// drainedWorker returns a run whose worker is idle.
func drainedWorker() *runCase {
	b := isolatedWorker()
	b.note(keyDrained, ago(time.Second))
	return b
}

func TestWorkerIsIsolatedOnlyAsPlanned(t *testing.T) {
	begin := func() *runCase { return newRun(restartWorkerKind, state.Intent) }
	failing := func(err error) func(*runCase) { return func(b *runCase) { b.p.patchErr = err } }
	runSteps(t, begin, restartWorker{}.apply, []stepCase{
		{name: "as planned", to: state.Intent, wrote: "patch"},
		{name: "isolated already", set: func(b *runCase) { b.label(isolated, "op") }, to: state.Intent},
		{name: "gone", set: func(b *runCase) { b.p.podErr = cluster.ErrNotFound }, to: state.Superseded, says: "ended before the eviction"},
		{name: "another of its name", set: func(b *runCase) { b.p.pod.UID = "pod-9" }, to: state.Superseded, says: "ended before the eviction"},
		{name: "not readable", set: func(b *runCase) { b.p.podErr = errAway }, to: state.Intent, wait: poll},
		{name: "terminating", set: func(b *runCase) { b.p.pod.Terminating = true }, to: state.Intent, wait: poll},
		{name: "labelled otherwise", set: func(b *runCase) { b.label("no", "") }, to: state.Superseded, says: "labels before Paramedic did"},
		{name: "isolated by another", set: func(b *runCase) { b.label(isolated, "op-2") }, to: state.Superseded, says: "labels before Paramedic did"},
		{name: "isolated, and labelled otherwise since", set: func(b *runCase) { b.label("no", "op") }, to: state.NeedsHuman, says: "labels after Paramedic took it out of serving"},
		{name: "no record of the labels", set: func(b *runCase) { b.act.Write.Old = "{}" }, to: state.Superseded, says: "labels before Paramedic did"},
		{name: "an unreadable record of the labels", set: func(b *runCase) { b.act.Write.Old = `{"serving":1}` }, to: state.Superseded, says: "labels before Paramedic did"},
		{name: "a record of the labels that is readable in part", set: func(b *runCase) { b.act.Write.Old = `{"serving":"yes","zone":1}` }, to: state.Superseded, says: "labels before Paramedic did"},
		{name: "isolated, by an unreadable record", set: func(b *runCase) { b.label(isolated, "op").act.Write.Old = "" }, to: state.NeedsHuman, says: "labels after Paramedic took it out of serving"},
		{name: "halted", set: func(b *runCase) { b.cfg.View.(*remediatetest.View).Halt = &state.Halt{} }, to: state.Denied, says: "halted"},
		{name: "conflict", set: failing(cluster.ErrConflict), to: state.Intent, wait: poll, wrote: "patch"},
		{name: "conflict for long", set: func(b *runCase) {
			failing(cluster.ErrConflict)(b)
			b.note("isolate_conflict", ago(10*time.Minute+moment))
		},
			to: state.Superseded, says: "no attempt succeeded for 10m", wrote: "patch"},
		{name: "conflict for a while", set: func(b *runCase) { failing(cluster.ErrConflict)(b); b.note("isolate_conflict", ago(10*time.Minute)) },
			to: state.Intent, wait: time.Minute, wrote: "patch"},
		{name: "forbidden", set: failing(cluster.ErrForbidden), to: state.Denied, says: "Kubernetes refused the ", wrote: "patch"},
		{name: "refused", set: failing(cluster.ErrRefused), to: state.Denied, says: "Kubernetes refused the ", wrote: "patch"},
		{name: "answer lost", set: failing(errAway), to: state.Intent, wait: poll, wrote: "patch"},
	})
}

func TestIsolatedWorkerIsDrained(t *testing.T) {
	reports := func(value float64, age time.Duration) func(*runCase) {
		return func(b *runCase) {
			b.ev.Samples = append(b.ev.Samples,
				state.Sample{Signal: "requests_running", Value: value, At: noon.Add(-age),
					Entity: state.Entity{Namespace: "llm", Pod: "vllm-0"}})
		}
	}
	waits := func(b *runCase) {
		b.ev.Samples = append(b.ev.Samples, state.Sample{Signal: "requests_waiting", Value: 20, At: noon.Add(-time.Second),
			Entity: state.Entity{Namespace: "llm", Pod: "vllm-0"}})
	}
	both := func(all ...func(*runCase)) func(*runCase) {
		return func(b *runCase) {
			for _, set := range all {
				set(b)
			}
		}
	}
	isolatedFor := func(d time.Duration) func(*runCase) { return func(b *runCase) { b.note(keyIsolated, ago(d)) } }
	asked := func(drain string) func(*runCase) { return func(b *runCase) { b.act.Params["drain"] = drain } }
	runSteps(t, isolatedWorker, restartWorker{}.apply, []stepCase{
		{name: "runs nothing", set: reports(0, time.Second), to: state.Intent},
		{name: "runs nothing, and requests wait", set: both(reports(0, time.Second), waits), to: state.Intent, wait: poll},
		{name: "runs something", set: reports(3, time.Second), to: state.Intent, wait: poll},
		{name: "reports nothing", to: state.Intent, wait: poll},
		{name: "reported before Services followed", set: reports(0, time.Minute-labelDelay+moment), to: state.Intent, wait: poll},
		{name: "reported since Services followed", set: reports(0, time.Minute-labelDelay), to: state.Intent},
		{name: "reports no number", set: reports(math.NaN(), time.Second), to: state.Intent, wait: poll},
		{name: "another worker runs nothing", set: both(reports(0, time.Second), func(b *runCase) { b.ev.Samples[0].Entity.Pod = "vllm-1" }), to: state.Intent, wait: poll},
		{name: "another worker runs something", set: both(reports(9, time.Second), func(b *runCase) { b.ev.Samples[0].Entity.Pod = "vllm-1" }, reports(0, time.Second)), to: state.Intent},
		{name: "runs something for long", set: both(reports(3, time.Second), isolatedFor(10*time.Minute)), to: state.Intent},
		{name: "runs something for less", set: both(reports(3, time.Second), isolatedFor(10*time.Minute-moment)), to: state.Intent, wait: poll},
		{name: "asked for less", set: asked("1m"), to: state.Intent},
		{name: "asked for a little more", set: asked("61s"), to: state.Intent, wait: poll},
		{name: "asked for too much", set: both(asked("1h"), isolatedFor(10*time.Minute)), to: state.Intent},
		{name: "asked for nothing", set: asked("0s"), to: state.Intent, wait: poll},
		{name: "asked for less than nothing", set: asked("-1h"), to: state.Intent, wait: poll},
		{name: "asked for what is no time", set: asked("soon"), to: state.Intent, wait: poll},
		{name: "labelled otherwise", set: func(b *runCase) { b.label("yes", "op") }, to: state.NeedsHuman, says: "labels after Paramedic took it out of serving"},
		{name: "written by another", set: func(b *runCase) { b.label(isolated, "op-2") }, to: state.NeedsHuman, says: "labels after Paramedic took it out of serving"},
		{name: "opted out", set: func(b *runCase) { b.optedOut = true }, to: state.NeedsHuman, says: "opted out of first aid while"},
	})
	for name, c := range map[string]struct {
		set  func(*runCase)
		says string
	}{
		"nothing":   {reports(0, time.Second), "it runs no requests"},
		"something": {both(reports(3, time.Second), isolatedFor(10*time.Minute)), "after 10m 3 requests still run"},
		"unknown":   {isolatedFor(10 * time.Minute), "after 10m the number of its requests cannot be read"},
	} {
		b := isolatedWorker()
		c.set(b)
		restartWorker{}.apply(t.Context(), b.stage)
		if b.act.Journal["drained_text"] != c.says || b.act.Journal[keyDrained] == "" {
			t.Errorf("%s: %v", name, b.act.Journal)
		}
	}
}

func TestDrainedWorkerIsEvictedOnce(t *testing.T) {
	failing := func(err error) func(*runCase) { return func(b *runCase) { b.p.evictErr = err } }
	others := func(ready bool) func(*runCase) {
		return func(b *runCase) {
			for i := range b.p.pods {
				b.p.pods[i].Ready = ready == (i > 0)
			}
		}
	}
	runSteps(t, drainedWorker, restartWorker{}.apply, []stepCase{
		{name: "as planned", to: state.Intent, wait: poll, wrote: "evict pod-0"},
		{name: "gone", set: func(b *runCase) { b.p.podErr = cluster.ErrNotFound }, to: state.Applied, says: "is gone"},
		{name: "another of its name", set: func(b *runCase) { b.p.pod.UID = "pod-9" }, to: state.Applied, says: "is gone"},
		{name: "terminating", set: func(b *runCase) { b.p.pod.Terminating = true }, to: state.Intent, wait: poll},
		{name: "no other worker is ready", set: others(false), to: state.Intent},
		{name: "one other worker is ready", set: func(b *runCase) { b.p.pods = b.p.pods[:2] }, to: state.Intent, wait: poll, wrote: "evict pod-0"},
		{name: "the pool is not readable", set: func(b *runCase) { b.p.wErr = errAway }, to: state.Intent},
		{name: "the workers are not readable", set: func(b *runCase) { b.p.podsErr = errAway }, to: state.Intent},
		{name: "halted", set: func(b *runCase) { b.cfg.View.(*remediatetest.View).Halt = &state.Halt{} }, to: state.Intent},
		{name: "late: the guards deny", set: func(b *runCase) {
			b.act.Write.At, b.in.Status = noon.Add(-freshIntent-moment), state.StatusResolved
			b.act.Target.UID = "x"
		}, to: state.Intent},
		{name: "late: the guards hold", set: func(b *runCase) { b.act.Write.At, b.p.w.Paused = noon.Add(-freshIntent-moment), true }, to: state.Intent, wait: poll},
		{name: "late: the guards allow", set: func(b *runCase) { b.act.Write.At = noon.Add(-freshIntent - moment) }, to: state.Intent, wait: poll, wrote: "evict pod-0"},
		{name: "blocked", set: failing(cluster.ErrBlocked), to: state.Intent, wait: poll, wrote: "evict pod-0"},
		{name: "blocked for less than it may", set: func(b *runCase) { failing(cluster.ErrBlocked)(b); b.note(keyBlocked, ago(15*time.Minute-moment)) }, to: state.Intent, wait: poll,
			wrote: "evict pod-0"},
		{name: "blocked for long", set: func(b *runCase) { failing(cluster.ErrBlocked)(b); b.note(keyBlocked, ago(15*time.Minute)) }, to: state.Intent, wrote: "evict pod-0"},
		{name: "forbidden", set: failing(cluster.ErrForbidden), to: state.Intent, wrote: "evict pod-0"},
		{name: "refused", set: failing(cluster.ErrRefused), to: state.Intent, wrote: "evict pod-0"},
		{name: "answer lost", set: failing(errAway), to: state.Intent, wait: poll, wrote: "evict pod-0"},
	})
	for name, c := range map[string]struct {
		set  func(*runCase)
		undo string
	}{
		"as planned":      {func(*runCase) {}, ""},
		"no other worker": {others(false), "no other worker is ready now"},
		"pool unknown":    {func(b *runCase) { b.p.wErr = errAway }, "Paramedic could not read the pool before the eviction: connection refused"},
		"workers unknown": {func(b *runCase) { b.p.podsErr = errAway }, "Paramedic could not read the pool's workers before the eviction: connection refused"},
		"blocked for long": {func(b *runCase) { failing(cluster.ErrBlocked)(b); b.note(keyBlocked, ago(15*time.Minute)) },
			"Kubernetes refused the eviction for 15m: a PodDisruptionBudget blocks the eviction"},
		"forbidden":   {failing(cluster.ErrForbidden), "Kubernetes refused the eviction: forbidden"},
		"refused":     {failing(cluster.ErrRefused), "Kubernetes refused the eviction: refused"},
		"answer lost": {failing(errAway), ""},
	} {
		b := drainedWorker()
		c.set(b)
		restartWorker{}.apply(t.Context(), b.stage)
		if got := b.act.Journal[keyUndo]; got != c.undo {
			t.Errorf("%s: the worker is put back for %q", name, got)
		}
	}
}

func TestWorkerIsPutBackOnlyIfItIsStillOut(t *testing.T) {
	begin := func() *runCase {
		b := drainedWorker()
		b.note(keyUndo, "why")
		return b
	}
	failing := func(err error) func(*runCase) { return func(b *runCase) { b.p.patchErr = err } }
	runSteps(t, begin, restartWorker{}.apply, []stepCase{
		{name: "out", to: state.Intent, wrote: "inverse"},
		{name: "back", set: func(b *runCase) { b.label("yes", "op"+undone) }, to: state.NeedsHuman, says: "why; the worker serves again"},
		{name: "labelled otherwise", set: func(b *runCase) { b.label("no", "op") }, to: state.NeedsHuman, says: "leaves them as they are"},
		{name: "written by another", set: func(b *runCase) { b.label(isolated, "op-2") }, to: state.NeedsHuman, says: "leaves them as they are"},
		{name: "forbidden", set: failing(cluster.ErrForbidden), to: state.NeedsHuman, says: "does not serve, and its labels could not be restored: forbidden", wrote: "inverse"},
		{name: "refused", set: failing(cluster.ErrRefused), to: state.NeedsHuman, says: "does not serve, and its labels could not be restored: refused", wrote: "inverse"},
		{name: "answer lost", set: failing(errAway), to: state.Intent, wait: poll, wrote: "inverse"},
		{name: "opted out", set: func(b *runCase) { b.optedOut = true }, to: state.NeedsHuman, says: "why; the namespace opted out"},
	})
	// A person who cancelled the run has acknowledged it. Otherwise the run still needs a person.
	for by, released := range map[string]string{"": "", "asha": "asha"} {
		b := begin().label("yes", "op"+undone)
		if by != "" {
			b.note(state.CalledOff, by)
		}
		restartWorker{}.apply(t.Context(), b.stage)
		if got, set := b.act.Journal[state.Released]; got != released || set != (by != "") {
			t.Errorf("called off by %q: released by %q", by, got)
		}
	}
}

func TestReplacementIsANewReadyWorker(t *testing.T) {
	fresh := func(change func(*cluster.Pod)) func(*runCase) {
		return func(b *runCase) {
			p := cluster.Pod{Namespace: "llm", Name: "vllm-9", UID: "pod-9", Ready: true, Created: noon.Add(-time.Minute)}
			change(&p)
			b.p.pods = append(b.p.pods[1:], p)
		}
	}
	long := func(d time.Duration) func(*runCase) { return func(b *runCase) { b.act.Steps[1].At = noon.Add(-d) } }
	begin := func() *runCase {
		b := newRun(restartWorkerKind, state.Applied)
		b.note(keyDrained, ago(time.Minute))
		return b
	}
	runSteps(t, begin, restartWorker{}.live, []stepCase{
		{name: "a new one", set: fresh(func(*cluster.Pod) {}), to: state.Verifying, says: "replaced by vllm-9"},
		{name: "one of the same second", set: fresh(func(p *cluster.Pod) { p.Created = p.Created.Add(-time.Second) }), to: state.Verifying},
		{name: "an older one", set: fresh(func(p *cluster.Pod) { p.Created = p.Created.Add(-time.Second - moment) }), to: state.Applied, wait: poll},
		{name: "the old one", set: fresh(func(p *cluster.Pod) { p.UID = "pod-0" }), to: state.Applied, wait: poll},
		{name: "not ready", set: fresh(func(p *cluster.Pod) { p.Ready = false }), to: state.Applied, wait: poll},
		{name: "terminating", set: fresh(func(p *cluster.Pod) { p.Terminating = true }), to: state.Applied, wait: poll},
		{name: "not ready, in a pool that has enough", set: func(b *runCase) { fresh(func(p *cluster.Pod) { p.Ready = false })(b); b.p.w.Replicas = 4 }, to: state.Applied, wait: poll},
		{name: "too few in all", set: func(b *runCase) { fresh(func(*cluster.Pod) {})(b); b.p.w.Replicas = 6 }, to: state.Applied, wait: poll},
		{name: "too few in all, and as many as before", set: func(b *runCase) {
			fresh(func(*cluster.Pod) {})(b)
			b.p.w.Replicas, b.act.Verify.Baseline = 6, map[string]float64{readySignal: 5}
		}, to: state.Verifying},
		{name: "none", to: state.Applied, wait: poll},
		{name: "the pool is not readable", set: func(b *runCase) { fresh(func(*cluster.Pod) {})(b); b.p.wErr = errAway }, to: state.Applied, wait: poll},
		{name: "the workers are not readable", set: func(b *runCase) { fresh(func(*cluster.Pod) {})(b); b.p.podsErr = errAway }, to: state.Applied, wait: poll},
		{name: "none for as long as it may take", set: long(30 * time.Minute), to: state.Applied, wait: poll},
		{name: "none for longer", set: long(30*time.Minute + moment), to: state.NeedsHuman, says: "no ready replacement after 30m"},
		{name: "no record of the drain", set: func(b *runCase) { fresh(func(*cluster.Pod) {})(b); delete(b.act.Journal, keyDrained) }, to: state.Verifying},
	})
	for name, c := range map[string]struct {
		set    func(*runCase)
		to     state.ActionState
		failed bool
	}{
		"there":        {set: func(*runCase) {}},
		"not readable": {set: func(b *runCase) { b.p.podErr = errAway }, failed: true},
		"gone":         {set: func(b *runCase) { b.p.podErr = cluster.ErrNotFound }, to: state.NeedsHuman},
		"terminating":  {set: func(b *runCase) { b.p.pod.Terminating = true }, to: state.NeedsHuman},
		"another pod":  {set: func(b *runCase) { b.p.pod.UID = "pod-10" }, to: state.NeedsHuman},
		"not recorded": {set: func(b *runCase) { delete(b.act.Journal, keyReplacementUID); b.p.pod.UID = "pod-10" }}, // by an older version
	} {
		b := newRun(restartWorkerKind, state.Verifying)
		b.note(keyReplacementUID, "pod-0")
		c.set(b)
		if got, err := (restartWorker{}).still(t.Context(), b.stage); got.to != c.to || (err != nil) != c.failed {
			t.Errorf("the replacement is %s: %s %v", name, got.to, err)
		}
	}
}

// A second bot, or the same one after a crash, may find the run in the middle of its steps. It
// knows only the journal.
func TestRunnerIgnoresUnknownAndEarlyWork(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*runCase)
		done bool
		to   state.ActionState
	}{
		"no such run":                          {func(b *runCase) { b.cfg.View.(*remediatetest.View).Recorded = nil }, true, ""},
		"proposed, to be approved":             {func(b *runCase) { b.act.State, b.act.Mode = state.Proposed, "approve" }, true, ""},
		"awaiting, planned as auto":            {func(b *runCase) { b.act.State = state.AwaitingApproval }, true, ""},
		"ended":                                {func(b *runCase) { b.act.State = state.Succeeded }, true, ""},
		"not due":                              {func(b *runCase) { b.act.NextAt = noon.Add(moment) }, false, ""},
		"due":                                  {func(b *runCase) { b.act.NextAt = noon }, true, state.Superseded},
		"an unknown action":                    {func(b *runCase) { b.act.Kind = "reboot" }, true, state.NeedsHuman},
		"an unknown cluster":                   {func(b *runCase) { b.cfg.Clusters = nil }, true, state.NeedsHuman},
		"an unknown action, nothing written":   {func(b *runCase) { b.act.Kind, b.act.State = "reboot", state.Admitted }, true, state.Denied},
		"an unknown incident, nothing written": {func(b *runCase) { b.act.State = state.Admitted; b.cfg.View.(*remediatetest.View).Incidents = nil }, true, state.Cancelled},
		"an unknown incident, about to write":  {func(b *runCase) { b.cfg.View.(*remediatetest.View).Incidents = nil }, true, state.Superseded},
	} {
		b := newRun(restartWorkerKind, state.Intent)
		m := b.cfg.View.(*remediatetest.View)
		b.in.Status = state.StatusResolved // so that nothing is planned again
		m.Recorded, m.Incidents = b.act, []state.Incident{b.in}
		b.cfg.Logger = quietLogger
		b.cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) { return playbooks.Playbook{}, false }
		b.p.podErr = cluster.ErrNotFound
		c.set(b)
		res := (&Runner{cfg: b.cfg}).Deliver(context.Background(), state.Effect{ID: "run", Action: "ACT-5"})
		var to state.ActionState
		if len(res.Inputs) > 0 {
			to = res.Inputs[0].Action.Action.State
		}
		if res.Outcome.Done != c.done || to != c.to {
			t.Errorf("%s: done %t, to %q", name, res.Outcome.Done, to)
		}
	}
}
