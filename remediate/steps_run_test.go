package remediate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/remediatetest"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// An interrupted step proves nothing if it read or gave up. If it wrote, it is recorded.
func TestCutOffStepIsRecordedOnlyIfItWrote(t *testing.T) {
	for _, c := range []struct {
		from, to state.ActionState
		want     bool
	}{
		{state.Verifying, state.Verifying, true}, {state.Approved, state.Admitted, true}, {state.Admitted, state.Intent, true}, {state.Verifying, state.NeedsHuman, true},
		{state.Intent, state.Denied, true}, {state.Intent, state.Applied, false}, {state.Intent, state.Superseded, false}, {state.Verifying, state.Succeeded, false},
		{state.RollbackIntent, state.RolledBack, false},
	} {
		if got := interruptible(c.from, c.to); got != c.want {
			t.Errorf("%s to %s: %t", c.from, c.to, got)
		}
	}
	for _, cut := range []bool{false, true} {
		b := newRun(setEngineArgKind, state.Applied)
		m := b.cfg.View.(*remediatetest.View)
		m.Recorded, m.Incidents, b.cfg.Logger = b.act, []state.Incident{b.in}, quietLogger
		b.p.w.Updated = 1 // so that it stays
		ctx, cancel := context.WithCancel(t.Context())
		if cut {
			cancel()
		}
		res := (&Runner{cfg: b.cfg}).Deliver(ctx, state.Effect{ID: "run", Action: b.act.ID})
		if res.Outcome.Done == cut || len(res.Inputs) > 0 == cut {
			t.Errorf("cut off %t: %+v", cut, res.Outcome)
		}
		cancel()
	}
}

// admitted takes an approved run through the guards, with the changes of a test.
func admission(change func(*runCase)) *runCase {
	b := newRun(setEngineArgKind, state.Approved)
	a := b.act
	a.Mode, b.cfg.Mode = "approve", policy.Approve
	a.Params = map[string]string{"arg": "max_num_seqs", "direction": "lower", "from": "100", "to": "50"}
	a.PlanHash = guard.PlanHash(a)
	a.DecidedBy, a.DecidedAt, a.ExpiresAt = state.Actor{ID: "asha", Via: "api",
		Role: state.Responder}, noon.Add(-time.Minute), noon.Add(14*time.Minute)
	a.Steps = []state.ActionStep{{State: state.AwaitingApproval, At: noon.Add(-2 * time.Minute)},
		{State: state.Approved, At: noon.Add(-time.Minute)}}
	b.p.w.Containers[0].Args[0], b.p.w.Annotations = "--max-num-seqs=100", nil
	b.in.Diagnosis.Findings = []state.Finding{{Signal: "kv_usage", Value: .99, Baseline: ptr(.6), Weight: 5}}
	for _, p := range b.p.pods {
		for signal, v := range map[string]float64{"kv_usage": .99, "preemption_rate": 5} {
			b.ev.Samples = append(b.ev.Samples,
				state.Sample{Signal: signal, Value: v, At: noon, Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: p.Name}})
		}
	}
	if change != nil {
		change(b)
	}
	return b
}

const interval = 30 * time.Second

// readings makes the run an admitted one with this many readings of its baseline.
func (b *runCase) readings(n int) {
	b.act.State = state.Admitted
	b.act.Verify.Before = map[string][]float64{"kv_usage": slices.Repeat([]float64{.99}, n),
		"preemption_rate": slices.Repeat([]float64{25}, n)}
}

func TestAdmissionEndsOnExpiryOrStricterMode(t *testing.T) {
	begin := func() *runCase { return admission(nil) }
	step := func(ctx context.Context, s *stage) advance {
		return (&Runner{cfg: s.cfg}).admit(ctx, s, setEngineArg{})
	}
	decided := func(at, expires time.Duration) func(*runCase) {
		return func(b *runCase) { b.act.DecidedAt, b.act.ExpiresAt = noon.Add(at), noon.Add(expires) }
	}
	frozen := func(until time.Duration) func(*runCase) {
		return func(b *runCase) {
			b.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "w", Start: noon.Add(-time.Hour),
				End: noon.Add(until)}}}}
		}
	}
	held := func(since time.Duration) func(*runCase) {
		return func(b *runCase) { b.p.w.Paused = true; b.note(keyHeld, ago(since)) }
	}
	runSteps(t, begin, step, []stepCase{
		{name: "allowed", to: state.Admitted, wait: interval, says: "all 14 guards allow"},
		{name: "allowed again", set: func(b *runCase) { b.readings(4) }, to: state.Intent, says: "on fresh reads"},
		{name: "admitted, the baseline is not whole yet", set: func(b *runCase) { b.readings(3) }, to: state.Admitted, wait: interval},
		{name: "admitted, no baseline was begun", set: func(b *runCase) { b.act.State = state.Admitted }, to: state.Admitted, wait: interval},
		{name: "admitted, nothing can be read", set: func(b *runCase) { b.readings(3); b.ev.Samples = nil }, to: state.Denied, says: "evidence"},
		{name: "resolved", set: func(b *runCase) { b.in.Status = state.StatusResolved }, to: state.Cancelled, says: "was resolved"},
		{name: "a stricter mode", set: func(b *runCase) { b.cfg.Mode = policy.Suggest }, to: state.Superseded, says: "the mode changed to suggest"},
		{name: "approved too late", set: decided(-time.Minute, -time.Minute), to: state.Expired, says: "came after the offer expired"},
		{name: "approved just in time", set: decided(-time.Minute-moment, -time.Minute), to: state.Admitted, wait: interval},
		{name: "approved too long ago", set: decided(-20*time.Minute, -15*time.Minute), to: state.Expired, says: "expired at 12:00:00 UTC"},
		{name: "approved nearly too long ago", set: decided(-20*time.Minute, -15*time.Minute+moment), to: state.Admitted, wait: interval},
		{name: "approved long ago, held until lately", set: func(b *runCase) { decided(-2*time.Hour, -time.Hour)(b); b.note(state.HeldUntil, ago(time.Minute)) }, to: state.Admitted, wait: interval},
		{name: "approved lately, held before that", set: func(b *runCase) { b.note(state.HeldUntil, ago(time.Hour)) }, to: state.Admitted, wait: interval},
		{name: "approved long ago, held by what is no time", set: func(b *runCase) { decided(-2*time.Hour, -time.Hour)(b); b.note(state.HeldUntil, "soon") }, to: state.Expired},
		{name: "mode auto needs no approval", set: func(b *runCase) {
			b.act.Mode, b.cfg.Mode, b.cfg.Limits.Signals = "auto", policy.Auto, 1
			b.act.DecidedAt, b.act.ExpiresAt = time.Time{}, time.Time{}
		}, to: state.Admitted, wait: interval},
		{name: "the cluster is not readable", set: func(b *runCase) { b.p.wErr = errAway }, to: state.Denied, says: "no fresh reads of the cluster: reading Deployment llm/vllm: connection refused"},
		{name: "the workers are not readable", set: func(b *runCase) { b.p.podsErr = errAway }, to: state.Denied, says: "no fresh reads of the cluster: connection refused"},
		{name: "the namespace is not readable", set: func(b *runCase) { b.p.nsErr = errAway }, to: state.Denied, says: "no fresh reads of the cluster: connection refused"},
		{name: "frozen", set: frozen(3 * time.Minute), to: state.Approved, wait: 3 * time.Minute},
		{name: "frozen for long", set: frozen(3 * time.Hour), to: state.Approved, wait: 5 * time.Minute},
		{name: "frozen for a minute", set: frozen(time.Minute), to: state.Approved, wait: time.Minute},
		{name: "frozen for less", set: frozen(20 * time.Second), to: state.Approved, wait: 20 * time.Second},
		{name: "held for less than it may", set: held(15*time.Minute - moment), to: state.Approved, wait: time.Minute},
		{name: "held for long", set: held(15 * time.Minute), to: state.Denied, says: "a guard held it for 15m"},
	})
	// A hold that names its end records it, and does not count as one without an end.
	b := admission(frozen(time.Hour))
	b.note(keyHeld, ago(time.Hour))
	step(t.Context(), b.stage)
	if _, ever := b.act.Journal[keyHeld]; ever || b.act.Journal[state.HeldUntil] != noon.Add(time.Hour).Format(time.RFC3339Nano) {
		t.Errorf("%v", b.act.Journal)
	}
	// The record of a hold is removed when it is over.
	b = admission(func(b *runCase) { b.note(keyHeld, ago(time.Minute)) })
	if step(t.Context(), b.stage); b.act.Journal[keyHeld] != "" {
		t.Errorf("%v", b.act.Journal)
	}
}

func TestWriteAndBaselineAreRecordedWithTheIntent(t *testing.T) {
	b := admission(func(b *runCase) {
		b.readings(4)
		b.act.Verify.Before[verify.PeerPrefix+"kv_usage"] = []float64{.5, .5}
		b.in.Scope.Model = "llama"
		for _, pool := range []string{"b", "", "vllm"} { // of which only one is another pool's
			b.ev.Samples = append(b.ev.Samples,
				state.Sample{Signal: "kv_usage", Value: map[string]float64{"b": .5}[pool] + .1, At: noon,
					Entity: state.Entity{Namespace: "llm", Pool: pool, Pod: "b-0" + pool}})
		}
	})
	(&Runner{cfg: b.cfg}).admit(t.Context(), b.stage, setEngineArg{})
	w, base := b.act.Write, b.act.Verify.Baseline
	if w.OpID == "" || w.UID != "dep-1" || !w.At.Equal(noon) || w.Old != "--max-num-seqs=100" || w.New != "--max-num-seqs=50" ||
		base["kv_usage"] != .99 || base["preemption_rate"] != 25 {
		t.Errorf("%+v %v", w, base)
	}
}

// The handover names the command that undoes a write, if there was one.
func TestHandoverIncludesUndoCommand(t *testing.T) {
	b := newRun(setEngineArgKind, state.Applied)
	b.act.Journal = nil
	b.note("a", "b")
	if got := b.person("why"); b.act.Journal["a"] != "b" || !strings.Contains(got.text, "why; to undo it by hand: kubectl") {
		t.Errorf("%v %q", b.act.Journal, got.text)
	}
	b.act.Write.Inverse = ""
	if got := b.person("why"); got.text != "why" {
		t.Errorf("%q", got.text)
	}
}

func TestWaitEndsWithTheHoldOrBefore(t *testing.T) {
	for _, c := range []struct{ until, most, want time.Duration }{
		{time.Minute, time.Hour, time.Minute}, {time.Hour, time.Minute, time.Minute}, {0, time.Minute, time.Minute}, {-time.Hour, time.Minute, time.Minute}, {moment, time.Minute, moment},
	} {
		if got := pause(noon, noon.Add(c.until), c.most); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// If a step supersedes a run, the plan in the same delivery sees it as superseded.
func TestNextPlanSeesTheStep(t *testing.T) {
	run := waiting(func(a *state.Action) { a.State, a.Steps = state.Superseded, []state.ActionStep{{State: state.Intent}} })
	other := waiting(func(a *state.Action) {
		a.ID, a.State, a.Steps = "ACT-2", state.Verifying, []state.ActionStep{{State: state.Intent}}
	})
	was := run
	was.State = state.Intent
	_, m := planned(was, other)
	names := func(all []state.Action) (out []string) {
		for _, a := range all {
			out = append(out, string(a.ID)+" "+string(a.State))
		}
		slices.Sort(out)
		return out
	}
	want := []string{"ACT-1 superseded", "ACT-2 verifying"}
	if v := (viewAfter{m, run}); !slices.Equal(names(v.BegunActions()), want) || !slices.Equal(names(v.ActionsOf("INC-1")), want) {
		t.Errorf("%v %v", names(v.BegunActions()), names(v.ActionsOf("INC-1")))
	}
	run.Steps = nil // it never began
	if v := (viewAfter{m, run}); !slices.Equal(names(v.BegunActions()), want[1:]) {
		t.Errorf("%v", names(v.BegunActions()))
	}
}

func TestSurveyReportsUnreadableObjects(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*runCase)
		says string
	}{
		"all is read":       {func(*runCase) {}, ""},
		"no access":         {func(b *runCase) { b.cfg.Clusters = nil }, "no access to cluster"},
		"an unknown action": {func(b *runCase) { b.act.Kind = "reboot" }, "no access to cluster"},
		"the pod":           {func(b *runCase) { b.p.podErr = errAway }, "connection refused"},
		"the workload":      {func(b *runCase) { b.p.wErr = errors.New("no such pool") }, "reading Deployment llm/vllm: no such pool"},
	} {
		b := newRun(restartWorkerKind, state.Approved)
		c.set(b)
		s := b.cfg.survey(t.Context(), b.in, b.act)
		if s.Problem == nil != (c.says == "") || s.Problem != nil && !strings.Contains(s.Problem.Error(), c.says) {
			t.Errorf("%s: %v", name, s.Problem)
		}
	}
	b := newRun(restartWorkerKind, state.Approved)
	b.in.Diagnosis.Findings = []state.Finding{{Signal: "a", Weight: 1}, {Signal: "b"}, {Signal: "c", Weight: -1},
		{Signal: "symptom:d", Weight: 1}}
	asked := &asked{}
	b.cfg.Gauge = asked
	b.cfg.survey(t.Context(), b.in, b.act)
	if got := asked.signals; !slices.Contains(got, "a") || slices.Contains(got, "b") || slices.Contains(got, "c") ||
		slices.Contains(got, "symptom:d") ||
		!slices.Contains(got, "container_memory") {
		t.Errorf("%v", got)
	}
}
