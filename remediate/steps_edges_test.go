package remediate

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/remediatetest"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// delivered returns the states of one delivery's events, and the reason of the last.
func (b *runCase) delivered(ctx context.Context, known bool) (states []state.ActionState, text string) {
	m := b.cfg.View.(*remediatetest.View)
	m.Recorded, b.cfg.Logger = b.act, quietLogger
	if known {
		m.Incidents = []state.Incident{b.in}
	}
	for _, in := range (&Runner{cfg: b.cfg}).Deliver(ctx, state.Effect{ID: "run", Action: b.act.ID}).Inputs {
		a := in.Action.Action
		states, text = append(states, a.State), a.Reason
	}
	return states, text
}

// A write before a shutdown is recorded, because it happened.
func TestWriteBeforeAShutdownIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := newRun(setEngineArgKind, state.Intent)
	if got, _ := b.delivered(ctx, true); len(got) != 1 || got[0] != state.Applied || len(b.p.wrote) != 1 {
		t.Errorf("%v, wrote %v", got, b.p.wrote)
	}
}

func TestUnknownRunIsDone(t *testing.T) {
	b := newRun(setEngineArgKind, state.Intent)
	if out := (&Runner{cfg: b.cfg}).Deliver(t.Context(), state.Effect{ID: "run", Action: "ACT-9"}); !out.Outcome.Done ||
		len(out.Inputs) > 0 || len(b.p.wrote) > 0 {
		t.Errorf("%+v, wrote %v", out, b.p.wrote)
	}
}

func TestRunOfAForgottenIncidentIsCancelled(t *testing.T) {
	for known, want := range map[bool]state.ActionState{true: state.Admitted, false: state.Cancelled} {
		b := admission(nil)
		got, text := b.delivered(t.Context(), known)
		if len(got) != 1 || got[0] != want || strings.Contains(text, "no longer exists") == known {
			t.Errorf("known %t: %v %q", known, got, text)
		}
	}
}

// The guards are asked when a run is admitted, and a hold comes before the baseline begins.
func TestHeldRunReadsNoBaseline(t *testing.T) {
	for _, st := range []state.ActionState{state.Approved, state.Admitted} {
		b := admission(func(b *runCase) { b.act.State, b.p.w.Paused = st, true })
		got := (&Runner{cfg: b.cfg}).admit(t.Context(), b.stage, setEngineArg{})
		if got.to != st || got.wait != time.Minute || len(b.act.Verify.Before) > 0 || len(b.act.Guards) == 0 {
			t.Errorf("%s: to %s after %s, %v", st, got.to, got.wait, b.act.Verify.Before)
		}
	}
}

func TestBaselineReadsThePeers(t *testing.T) {
	b := admission(func(b *runCase) {
		b.in.Scope.Model = "llama"
		b.ev.Samples = append(b.ev.Samples,
			state.Sample{Signal: "kv_usage", Value: .5, At: noon, Entity: state.Entity{Namespace: "llm", Pool: "b", Pod: "b-0"}})
	})
	(&Runner{cfg: b.cfg}).admit(t.Context(), b.stage, setEngineArg{})
	if v := b.act.Verify.Before; len(v["kv_usage"]) != 1 || len(v[verify.PeerPrefix+"kv_usage"]) != 1 ||
		v[verify.PeerPrefix+"kv_usage"][0] != .5 {
		t.Errorf("%v", v)
	}
}

func TestStepIsRecordedOnlyIfItIsLegal(t *testing.T) {
	var log bytes.Buffer
	b := newRun(setEngineArgKind, state.Approved)
	b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := &Runner{cfg: b.cfg}
	if got := r.advance(t.Context(), b.stage, state.Approved, advance{to: state.Succeeded}); len(got) != 0 ||
		!strings.Contains(log.String(), "illegal step") {
		t.Errorf("%+v %s", got, &log)
	}
	// A run that continues is due after its wait. A run that ended is never due.
	for to, wait := range map[state.ActionState]time.Duration{state.Admitted: interval, state.Denied: 0} {
		b := newRun(setEngineArgKind, state.Approved)
		b.cfg.Logger = quietLogger
		got := (&Runner{cfg: b.cfg}).advance(t.Context(), b.stage, state.Approved, advance{to: to, wait: wait})
		if next := got[0].Action.Action.NextAt; next.IsZero() != (wait == 0) || wait > 0 && !next.Equal(noon.Add(wait)) {
			t.Errorf("%s: due at %s", to, next)
		}
	}
}

// A superseded run is planned again only if its incident is open.
func TestSupersededRunIsPlannedAnewIfOpen(t *testing.T) {
	for _, open := range []bool{true, false} {
		b := newRun(setEngineArgKind, state.Intent)
		b.in.Diagnosis.Playbook, b.cfg.Logger = "pb", quietLogger
		if !open {
			b.in.Status = state.StatusResolved
		}
		b.cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) {
			return playbooks.Playbook{FirstAid: []playbooks.Remedy{{Action: setEngineArgKind,
				Params: map[string]string{"arg": "max_num_seqs", "direction": "lower"}}}}, true
		}
		got := (&Runner{cfg: b.cfg}).advance(t.Context(), b.stage, state.Intent, advance{to: state.Superseded})
		if got[0].Action.Action.State != state.Superseded || len(got) > 1 != open {
			t.Errorf("open %t: %d events", open, len(got))
		}
	}
}

// A worker is gone only if the API server says so. Its replacement is ready and was created later.
func TestWorkerIsReplacedOnlyByALaterOne(t *testing.T) {
	drained := func(b *runCase) {
		b.note(keyIsolated, ago(time.Minute))
		b.note(keyDrained, ago(time.Second))
		b.p.pod, b.p.podErr = cluster.Pod{}, errAway
	}
	runSteps(t, func() *runCase { return newRun(restartWorkerKind, state.Intent) }, restartWorker{}.apply, []stepCase{
		{name: "not readable when it is drained", set: drained, to: state.Intent, wait: poll},
		{name: "gone when it is drained", set: func(b *runCase) { drained(b); b.p.podErr = cluster.ErrNotFound }, to: state.Applied, says: "is gone"},
		{name: "the record of its labels is not readable", set: func(b *runCase) {
			b.act.Write.Old, b.p.pod.Labels["zone"] = `{"serving":"yes","zone":1}`, ""
		}, to: state.Superseded, says: "worker's labels"},
	})
	ending := func(since time.Duration) func(*runCase) {
		return func(b *runCase) {
			b.p.pod.Terminating, b.p.pod.Annotations[cluster.OpIDAnnotation] = true, "op"
			b.note(keyEvicted, ago(since))
		}
	}
	runSteps(t, func() *runCase { return newRun(restartWorkerKind, state.Intent) }, restartWorker{}.apply, []stepCase{
		{name: "terminating for as long as it may", set: ending(30 * time.Minute), to: state.Intent, wait: poll},
		{name: "terminating for longer", set: ending(30*time.Minute + moment), to: state.NeedsHuman, says: "still terminates after 30m"},
	})
	fresh := func(created time.Duration, change func(*cluster.Pod)) func(*runCase) {
		return func(b *runCase) {
			b.p.pods[0] = cluster.Pod{Namespace: "llm", Name: "vllm-new", UID: "pod-9", Ready: true,
				Created: noon.Add(-time.Minute + created)}
			if change != nil {
				change(&b.p.pods[0])
			}
		}
	}
	noted := func(set func(*runCase)) func(*runCase) {
		return func(b *runCase) { set(b); b.note(keyDrained, ago(time.Minute)) }
	}
	live := func(set func(*runCase)) func(*runCase) { // the pool has its number without the new one
		return func(b *runCase) {
			set(b)
			b.p.pods = append(b.p.pods, cluster.Pod{Namespace: "llm", Name: "more", UID: "pod-8", Ready: true})
		}
	}
	runSteps(t, func() *runCase { return newRun(restartWorkerKind, state.Applied) }, restartWorker{}.live, []stepCase{
		{name: "later", set: noted(fresh(0, nil)), to: state.Verifying, says: "vllm-new"},
		{name: "earlier", set: noted(fresh(-time.Minute, nil)), to: state.Applied, wait: poll},
		{name: "later, and terminating", set: noted(live(fresh(0, func(p *cluster.Pod) { p.Terminating = true }))), to: state.Applied, wait: poll},
		{name: "later than when it was found gone", set: fresh(0, nil), to: state.Verifying, says: "vllm-new"},
		{name: "earlier than when it was found gone", set: fresh(-time.Minute, nil), to: state.Applied, wait: poll},
	})
}

// If the read failed, or the workload lacks the place of the flag, nothing is concluded from it.
func TestUnreadWorkloadChangesNothing(t *testing.T) {
	nowhere := func(b *runCase) { b.act.Write.Old, b.p.w.Containers = "", nil } // the flag was appended
	old := func(b *runCase) { b.p.w.Containers[0].Args[0] = b.act.Write.Old }
	deleted := func(b *runCase) { b.p.wErr = cluster.ErrNotFound }
	both := func(b *runCase) { old(b); deleted(b) }
	in := func(st state.ActionState) func() *runCase {
		return func() *runCase { return newRun(setEngineArgKind, st) }
	}
	runSteps(t, in(state.Intent), setEngineArg{}.apply, []stepCase{
		{name: "appended where there is no container", set: nowhere, to: state.Superseded, says: "changed the value before the write"},
	})
	runSteps(t, in(state.Applied), setEngineArg{}.live, []stepCase{
		{name: "appended, and no container any more", set: nowhere, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "deleted", set: deleted, to: state.NeedsHuman, says: "changed the workload after the write"},
		{name: "put back and deleted", set: both, to: state.NeedsHuman, says: "changed the workload after the write"},
	})
	runSteps(t, in(state.Verifying), func(ctx context.Context, s *stage) advance {
		got, _ := setEngineArg{}.still(ctx, s)
		return got
	}, []stepCase{{name: "put back and deleted while verified", set: both, to: state.NeedsHuman, says: "during the verification"}})
	runSteps(t, in(state.RollbackIntent), setEngineArg{}.undo, []stepCase{
		{name: "begun long ago", set: func(b *runCase) { b.act.Steps[1].At = noon.Add(-time.Hour) }, to: state.RollbackIntent, wrote: "inverse"},
		{name: "conflict", set: func(b *runCase) { b.p.patchErr = cluster.ErrConflict }, to: state.RollbackIntent, wait: poll, wrote: "inverse"},
		{name: "conflict for long", set: func(b *runCase) {
			b.p.patchErr = cluster.ErrConflict
			b.note("undo_conflict", ago(10*time.Minute+moment))
		},
			to: state.NeedsHuman, says: "conflicts with other changes", wrote: "inverse"},
	})
	s := sceneOf(setEngineArgKind)
	s.Workload.Containers, s.Action.Params["from"], s.Action.Params["to"] = nil, "0", "8"
	if _, err := (setEngineArg{}).Write(s, "op"); err == nil || !strings.Contains(err.Error(), "recognises no engine") {
		t.Errorf("%v", err)
	}
}
