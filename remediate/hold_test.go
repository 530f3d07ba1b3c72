package remediate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

func TestHoldLastsUntilItsTime(t *testing.T) {
	freeze := func(w *world) time.Time {
		end := w.clock.now.Add(9 * time.Hour)
		w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "night", Start: w.clock.now, End: end}}}}
		return end
	}
	cooldown := func(w *world) time.Time {
		w.actions = append(w.actions, state.Action{ID: "ACT-0", Incident: "INC-0", Kind: "another", State: state.Succeeded,
			Target: state.Target{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"},
			Steps:  []state.ActionStep{{State: state.Intent, At: w.clock.now}, {State: state.Succeeded, At: w.clock.now}}})
		return w.clock.now.Add(30 * time.Minute)
	}
	edit := func(w *world) time.Time {
		w.cfg.Policies = []policy.Policy{{Limits: policy.Limits{HumanEdit: time.Hour}}}
		w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=256")
		return w.clock.now.Add(time.Hour)
	}
	for name, hold := range map[string]func(*world) time.Time{"freeze_window": freeze, "history": cooldown, "ownership": edit} {
		for _, mode := range []policy.Mode{policy.Approve, policy.Auto} {
			t.Run(name+" in mode "+string(mode), func(t *testing.T) {
				w := newWorld(t, setArg, mode)
				end := hold(w)
				w.plan()
				if mode == policy.Approve {
					w.approve(sre)
				}
				a := w.step()
				until, err := time.Parse(time.RFC3339, a.Journal[state.HeldUntil])
				if !a.State.BeforeEffect() || err != nil || !until.Equal(end) || !strings.Contains(a.Journal[state.HeldBy], name+": ") {
					t.Fatalf("%s, held until %s by %s (%v)", a.State, until, a.Journal[state.HeldBy], err)
				}
				w.until(state.Intent)
				if late := w.clock.now.Sub(end); late < 2*time.Minute || late > 3*time.Minute { // two of them read the baseline
					t.Errorf("begun %s after the hold ended", late)
				}
			})
		}
	}
}

// The operator may tighten a limit while an approved run is held.
func TestHeldRunKeepsTheLimitsInForce(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	end := w.clock.now.Add(9 * time.Hour)
	night := policy.Policy{Freeze: []policy.FreezeWindow{{Name: "night", Start: w.clock.now, End: end}}}
	w.cfg.Policies = []policy.Policy{night}
	w.plan() // 256 → 128
	w.approve(sre)
	w.step()
	w.cfg.Limits.Floor = 192
	id := w.actions[0].ID
	for range 200 { // looks every five minutes
		if a, _ := w.Action(id); a.State.Done() {
			break
		}
		w.step()
	}
	a, _ := w.Action(id)
	w.wantDenied(a, "verifiability")
	w.wantWrites(0)
}

// A hold without an end is given up, and the remedy is planned again.
func TestHoldWithoutAnEndIsGivenUp(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.actions = append(w.actions, state.Action{ID: "ACT-0", Incident: "INC-0", Kind: "another", State: state.Verifying,
		Target: state.Target{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"},
		Steps:  []state.ActionStep{{State: state.Intent, At: w.clock.now.Add(-8 * time.Hour)}}})
	began := w.clock.now
	a := w.until(state.Denied)
	if took := w.clock.now.Sub(began); took < 15*time.Minute || took > 17*time.Minute ||
		!strings.Contains(a.Reason, "a guard held it for 15m: lock") {
		t.Errorf("after %s: %s", took, a.Reason)
	}
	w.actions = w.actions[:1]
	if again := w.plan(); again.ID == a.ID || again.State != state.AwaitingApproval {
		t.Errorf("what was given up is not planned again: %s %s", again.ID, again.State)
	}
}

// An approval does not outlive a bot that was down. Only a recorded hold extends it.
func TestApprovalExpiresWhileTheBotIsAway(t *testing.T) { // 14
	for _, begun := range []state.ActionState{state.Approved, state.Admitted} {
		w := newWorld(t, setArg, policy.Approve)
		id := w.plan().ID
		w.approve(sre)
		w.until(begun)
		w.clock.now = w.clock.now.Add(31 * time.Minute)
		w.take(w.bot().Run.Deliver(context.Background(), state.Effect{ID: "run", Action: id}).Inputs)
		if a, _ := w.Action(id); a.State != state.Expired {
			t.Errorf("%s: %s %s", begun, a.State, a.Reason)
		}
		w.wantWrites(0)
	}
}

func TestHealedPoolIsNotTreatedAfterAHold(t *testing.T) { // 13
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "night", Start: w.clock.now,
		End: w.clock.now.Add(3 * time.Hour)}}}}
	w.plan()
	w.approve(sre)
	w.step()
	healed(w)
	if a := w.until(state.Denied); !strings.Contains(a.Reason, "the evidence no longer holds") {
		t.Error(a.Reason)
	}
	w.wantWrites(0)
}

// A run that was planned in mode auto cannot be approved. If people are to be asked now, it is
// planned again for them.
func TestStricterModeIsPlannedAgain(t *testing.T) {
	for mode, want := range map[policy.Mode]state.ActionState{policy.Approve: state.AwaitingApproval, policy.Suggest: state.Proposed} {
		w := newWorld(t, setArg, policy.Auto)
		old := w.plan().ID
		w.cfg.Mode = mode
		w.take(w.bot().Run.Deliver(context.Background(), state.Effect{ID: "run", Action: old}).Inputs)
		a, _ := w.Action(old)
		if a.State != state.Superseded || w.actions[0].ID == old || w.actions[0].State != want || w.actions[0].Mode != string(mode) {
			t.Errorf("%s: %s (%s), then %s", mode, a.State, a.Reason, w.actions[0].State)
		}
	}
}

// A held run in mode auto is not planned again when the time for an approval is over.
func TestHeldRunStaysTheSamePlan(t *testing.T) {
	w := newWorld(t, setArg, policy.Auto)
	w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "night", Start: w.clock.now,
		End: w.clock.now.Add(9 * time.Hour)}}}}
	w.plan()
	w.step()
	w.clock.now = w.clock.now.Add(time.Hour)
	if w.plan(); len(w.actions) != 1 {
		t.Errorf("it is %s (%s), and planned anew", w.actions[1].State, w.actions[1].Reason)
	}
}

func TestUnwrittenEndIsPlannedAgain(t *testing.T) {
	for name, end := range map[string]func(*world){
		"expired": func(w *world) {
			w.clock.now = w.clock.now.Add(16 * time.Minute)
			w.approve(sre)
			w.until(state.Expired)
		},
		"denied at admission": func(w *world) {
			w.approve(sre)
			w.blind = true
			w.until(state.Denied)
			w.blind = false
		},
		"given up where nobody is asked": func(w *world) {
			w.actions, w.cfg.Mode = nil, policy.Auto
			w.plan()
			w.actions = append(w.actions, state.Action{ID: "ACT-0", Incident: "INC-0", Kind: "another", State: state.Verifying,
				Target: state.Target{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama"},
				Steps:  []state.ActionStep{{State: state.Intent, At: w.clock.now.Add(-8 * time.Hour)}}})
			w.until(state.Denied)
			w.actions, w.cfg.Mode = w.actions[:1], policy.Approve
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Approve)
			w.plan()
			end(w)
			old := w.actions[0].ID
			if a := w.plan(); a.ID == old || a.State != state.AwaitingApproval || a.DecidedBy.ID != "" {
				t.Fatalf("not planned again: %s %s", a.State, a.Reason)
			}
			w.approve(sre)
			w.until(state.Succeeded)
			w.wantWrites(1)
		})
	}
}

// A denial for the same reasons is not recorded again.
func TestSameDenialIsRecordedOnce(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.blind = true
	w.until(state.Denied)
	n := len(w.actions)
	for range 5 {
		out := w.bot().Plan.Deliver(context.Background(), state.Effect{ID: "plan", Incident: w.in.ID})
		w.take(out.Inputs)
		if out.Outcome.Done {
			t.Fatal("it is never looked at again")
		}
	}
	if len(w.actions) > n+1 { // approval is not asked of a plan, so that the reasons may differ once
		t.Errorf("%d records of one denial", len(w.actions)-n)
	}
}

// The window before the write fits into every approval, however short.
func TestShortApprovalOutlastsBaseline(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, 2 * time.Minute, 15 * time.Minute} {
		w := newWorld(t, setArg, policy.Approve)
		w.cfg.Limits.ApprovalTTL = ttl
		w.plan()
		w.clock.now = w.clock.now.Add(ttl - time.Second)
		w.approve(sre)
		w.until(state.Applied)
	}
}
