package remediate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

const (
	setArg  = playbooks.ActionSetEngineArg
	restart = playbooks.ActionRestartWorker
)

func TestApprovedCapHealsThePool(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	a := w.plan()
	if a.State != state.AwaitingApproval || a.Change != "max_num_seqs 256 → 128" {
		t.Fatalf("%s %q %s %+v", a.State, a.Change, a.Reason, a.Guards)
	}
	w.approve(sre)
	w.until(state.Intent)
	w.wantWrites(0)
	w.until(state.Applied)
	a = w.until(state.Succeeded)
	w.wantWrites(1)
	if !slices.Contains(w.args(), "--max-num-seqs=128") || a.Verify.Verdict != state.Better {
		t.Errorf("%v %+v", w.args(), a.Verify)
	}
}

func TestAutoNeedsNoApproval(t *testing.T) {
	w := newWorld(t, setArg, policy.Auto)
	if a := w.plan(); a.State != state.Proposed {
		t.Fatalf("%s %s", a.State, a.Reason)
	}
	w.until(state.Succeeded)
}

// The journal has the time of each of the runner's states. It moves if the clock is set.
func TestJournalHasTheTimeOfEachState(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	a := w.approvedUntil(state.Succeeded)
	for _, step := range a.Steps[2:] { // after the approval
		if at, err := time.Parse(time.RFC3339Nano, a.Journal[string(step.State)]); err != nil || !at.Equal(step.At) {
			t.Errorf("%s at %s: %s %v", step.State, step.At, at, err)
		}
	}
}

func TestHarmIsRolledBackOnce(t *testing.T) { // 6, 51
	w := newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.plan()
	w.approve(sre)
	a := w.until(state.RolledBack)
	w.wantWrites(2)
	if !slices.Contains(w.args(), "--max-num-seqs=256") || a.Verify.Verdict != state.Worse {
		t.Errorf("%v %+v", w.args(), a.Verify)
	}
	if !strings.HasPrefix(a.Reason, "the old value is live again (guardrail breached: ") {
		t.Errorf("it is said to be undone because %q", a.Reason)
	}
	a = w.plan()
	if a.State != state.RolledBack {
		t.Errorf("a failed action was proposed again: %s", a.State)
	}
}

func TestLeakingWorkerIsDrainedEvictedAndReplaced(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	a := w.plan()
	if a.State != state.AwaitingApproval || a.Change != "restart pod llm/vllm-llama-1" {
		t.Fatalf("%s %q %s", a.State, a.Change, a.Reason)
	}
	w.approve(sre)
	w.until(state.Succeeded)
	w.wantWrites(2) // isolate, evict
}

// The requests of a hung engine never end. So its playbook asks for a short drain, and the plan
// that people approve shows it.
func TestPlaybookShortensTheDrain(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.remedy.Params = map[string]string{"drain": "30s"}
	if a := w.plan(); !strings.Contains(a.Why, "for up to 30s") || !strings.Contains(a.Command, "sleep 30 ") {
		t.Errorf("%s\n%s", a.Why, a.Command)
	}
}

func TestObserveAndSuggestWriteNothing(t *testing.T) { // 47
	for _, mode := range []policy.Mode{policy.Observe, policy.Suggest} {
		for _, kind := range []string{setArg, restart} {
			w := newWorld(t, kind, mode)
			var asked []string
			w.cluster.Before = func(verb, object string) error { asked = append(asked, verb+" "+object); return nil }
			a := w.plan()
			if a.State != state.Proposed || a.Command == "" {
				t.Errorf("%s %s: %s %s", mode, kind, a.State, a.Reason)
			}
			w.wantDenied(a, "mode")
			w.take(w.bot().Run.Deliver(context.Background(), state.Effect{Action: a.ID}).Inputs)
			if len(asked) > 0 {
				t.Errorf("%s asked for %v", mode, asked)
			}
		}
	}
}

func TestSecondPlanOfTheSameAddsNothing(t *testing.T) { // 8, 9
	w := newWorld(t, setArg, policy.Approve)
	e := state.Effect{Incident: w.in.ID}
	one, two := w.bot().Plan.Deliver(context.Background(), e), w.bot().Plan.Deliver(context.Background(), e)
	if one.Inputs[0].Action.Action.ID != two.Inputs[0].Action.Action.ID {
		t.Error("two deliveries of one plan have two IDs")
	}
	w.take(one.Inputs)
	if again := w.bot().Plan.Deliver(context.Background(), e); len(again.Inputs) > 0 {
		t.Errorf("planned again: %+v", again.Inputs)
	}
}

func TestCrashAfterIntentBeforeTheWrite(t *testing.T) { // 1
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Intent)
	w.bot() // another process
	w.until(state.Succeeded)
	w.wantWrites(1)
}

func TestCrashBetweenTheWriteAndItsRecord(t *testing.T) { // 2
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	a := w.until(state.Intent)
	w.bot().Run.Deliver(context.Background(), state.Effect{Action: a.ID}) // its answer is lost with the process
	w.wantWrites(1)
	w.until(state.Applied)
	w.wantWrites(1)
}

func TestWriteThatTimedOutButLanded(t *testing.T) { // 3
	w := newWorld(t, setArg, policy.Approve)
	w.cluster.After = func(string, string) error { return errLost }
	w.approvedUntil(state.Succeeded)
	w.wantWrites(1)
}

func TestEvictedNameThatCameBackIsNotEvictedAgain(t *testing.T) { // 4
	w := newWorld(t, restart, policy.Approve)
	w.plan()
	w.approve(sre)
	for w.actions[0].Journal["drained"] == "" {
		w.step()
	}
	w.bot().Run.Deliver(context.Background(), state.Effect{Action: w.actions[0].ID}) // evicts; the record is lost
	wl, _ := w.cluster.Workload(context.Background(), pool)
	ps, _ := w.cluster.Pods(context.Background(), wl)
	fresh := ps[len(ps)-1].Name
	w.cluster.EditPod("llm", fresh, func(p *cluster.Pod) { p.Name = "vllm-llama-1" })
	w.sick = func(string, int) map[string]float64 { return leaking("", 0) }
	w.until(state.Succeeded)
	w.wantWrites(2)
}

func TestRestartDuringVerificationKeepsTheDeadline(t *testing.T) { // 5
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	a := w.until(state.Verifying)
	until := a.Verify.Until
	for range 3 {
		a = w.step()
	}
	if !a.Verify.Until.Equal(until) {
		t.Error("the deadline moved")
	}
}

func TestApprovalAfterResolutionCancels(t *testing.T) { // 13
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.in.Status = state.StatusResolved
	if a := w.step(); a.State != state.Cancelled {
		t.Error(a.State)
	}
}

func TestLateApprovalExpires(t *testing.T) { // 14
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.clock.now = w.clock.now.Add(16 * time.Minute)
	w.approve(sre)
	if a := w.step(); a.State != state.Expired {
		t.Error(a.State)
	}
}

func TestPlanThatWasTamperedWithIsRefused(t *testing.T) { // 19
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.actions[0].Params["to"] = "8"
	w.wantDenied(w.step(), "approval")
}

func TestHumanEditBeforeTheWriteStopsIt(t *testing.T) { // 20
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Intent)
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=64")
	old := w.actions[0].ID
	w.step()
	if a, _ := w.Action(old); a.State != state.Superseded || !slices.Contains(w.args(), "--max-num-seqs=64") {
		t.Errorf("%s %v", a.State, w.args())
	}
	w.wantWrites(0)
}

func TestHumanEditAfterTheWriteIsNotRolledBack(t *testing.T) { // 21
	w := newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.approvedUntil(state.RollbackIntent)
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=64")
	a := w.step()
	if a.State != state.NeedsHuman || !slices.Contains(w.args(), "--max-num-seqs=64") {
		t.Errorf("%s %v", a.State, w.args())
	}
}

// The person's rollout is neither judged as the run's change nor rolled back with it.
func TestHumanRolloutEndsTheVerification(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Verifying)
	w.step()
	w.cluster.Edit(pool, "kubectl-set", func(doc map[string]any) {
		spec := doc["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		spec["containers"].([]any)[0].(map[string]any)["image"] = "vllm/vllm-openai:another"
	})
	w.until(state.NeedsHuman)
	w.wantWrites(1)
}

func TestRolloutThatBeginsBetweenCheckAndWrite(t *testing.T) { // 25
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Intent)
	w.cluster.SetArgs(pool, "ci", "--model=llama-2", "--max-num-seqs=256")
	old := w.actions[0].ID
	w.step()
	w.step()
	if a, _ := w.Action(old); a.State != state.Superseded {
		t.Errorf("%s %s", a.State, a.Reason)
	}
	w.wantWrites(0)
	if a := w.actions[0]; a.ID == old || a.State != state.AwaitingApproval || a.DecidedBy.ID != "" {
		t.Errorf("not planned again for a person to see: %s %s %s", a.ID, a.State, a.Reason)
	}
}

func TestShutdownWhileGuardsAreAskedDeniesNothing(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	res := w.bot().Run.Deliver(ctx, state.Effect{Action: w.actions[0].ID})
	if len(res.Inputs) > 0 || res.Outcome.Done {
		t.Errorf("%+v", res)
	}
}

func TestBlockedEvictionReturnsTheWorker(t *testing.T) { // 26
	w := newWorld(t, restart, policy.Approve)
	w.plan()
	w.approve(sre)
	for w.actions[0].Journal["isolated"] == "" {
		w.step()
	}
	w.cluster.AddBudget("llm", "late", map[string]string{"app": "vllm"}, 5)
	w.until(state.NeedsHuman)
	p, err := w.cluster.Pod(context.Background(), "llm", "vllm-llama-1")
	if err != nil || p.Labels["serving"] != "yes" {
		t.Errorf("%v %v", p.Labels, err)
	}
	for _, c := range w.cluster.Changes() {
		if c.Verb == "create" {
			t.Error("evicted")
		}
	}
}

func TestTwoBudgetsAreExplained(t *testing.T) { // 27
	w := newWorld(t, restart, policy.Approve)
	w.cluster.AddBudget("llm", "a", map[string]string{"app": "vllm"}, 1)
	w.cluster.AddBudget("llm", "b", map[string]string{"app": "vllm"}, 1)
	w.wantDenied(w.plan(), "capacity")
}

func TestPrometheusDownDeniesAndEndsVerification(t *testing.T) { // 29, 30
	w := newWorld(t, setArg, policy.Approve)
	w.blind = true
	a := w.plan()
	w.wantDenied(a, "evidence")
	w.wantDenied(a, "verifiability")

	w = newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Verifying)
	w.blind = true
	a = w.until(state.NeedsHuman)
	if a.Verify.Verdict != state.VerifyError || !slices.Contains(w.args(), "--max-num-seqs=128") {
		t.Errorf("%s %v", a.Verify.Verdict, w.args())
	}
}

func TestUnclearChangeIsInconclusiveAndKept(t *testing.T) { // 30, 31
	w := newWorld(t, setArg, policy.Approve)
	w.sick = func(p string, _ int) map[string]float64 { return exhausted(p, 256) }
	w.approvedUntil(state.Verifying)
	w.in.ActiveAlerts = 0 // a resolved alert proves nothing
	a := w.until(state.NeedsHuman)
	if a.Verify.Verdict != state.Inconclusive || !strings.Contains(a.Reason, "kubectl") {
		t.Errorf("%s %s", a.Verify.Verdict, a.Reason)
	}
	w.wantWrites(1)
}

func TestHaltStopsNewEffectsAndNoRollback(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.approvedUntil(state.Intent)
	w.halt = &state.Halt{Actor: sre}
	if a := w.step(); a.State != state.Denied {
		t.Errorf("%s", a.State)
	}
	w.wantWrites(0)

	w = newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.approvedUntil(state.Verifying)
	w.halt = &state.Halt{Actor: sre}
	w.until(state.RolledBack)
}

func TestPermissionRevokedMidFlight(t *testing.T) { // 43
	w := newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.approvedUntil(state.RollbackIntent)
	w.cluster.Before = func(string, string) error { return cluster.ErrForbidden }
	w.until(state.NeedsHuman)
	w.cluster.Before = nil
	other := w.in
	w.in.ID, w.in.OpenedAt = "INC-2", w.in.OpenedAt.Add(time.Minute)
	w.wantDenied(w.plan(), "lock")
	w.more = append(w.more, other)
	w.actions[len(w.actions)-1].Journal[state.Released] = "asha"
	for _, g := range w.plan().Guards {
		if g.Guard == "lock" && g.Decision == state.Deny {
			t.Error("the lock is held after a person took care of it")
		}
	}
}

func TestNamespaceOptedOutMidFlight(t *testing.T) { // 58
	w := newWorld(t, setArg, policy.Approve)
	w.sick = harmed
	w.approvedUntil(state.RollbackIntent)
	w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "false"})
	a := w.until(state.NeedsHuman)
	if !strings.Contains(a.Reason, "kubectl -n llm patch deployment") {
		t.Error(a.Reason)
	}
	w.wantWrites(1)
}

// People triage an incident without a playbook by hand.
func TestUnknownPlaybookPlansNoAction(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) {
		return playbooks.Playbook{ID: "unknown", FirstAid: []playbooks.Remedy{w.remedy}}, true
	}
	if out := w.bot().Plan.Deliver(t.Context(), state.Effect{ID: "plan", Incident: w.in.ID}); len(out.Inputs) != 0 {
		t.Errorf("%+v", out.Inputs)
	}
}
