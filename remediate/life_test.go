package remediate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// later lists changes after an intent was recorded, each of which makes its write wrong.
var later = map[string]func(*world){
	"mode observe (remediate.mode) does not write":    func(w *world) { w.cfg.Mode = policy.Observe },
	"the incident is resolved":                        func(w *world) { w.in.Status = state.StatusResolved },
	"no alert of the incident":                        func(w *world) { w.in.ActiveAlerts = 0 },
	"the evidence no longer holds":                    healed,
	"not among the approvers":                         func(w *world) { w.cfg.Policies = []policy.Policy{{Approvers: []string{"lin"}}} },
	"0 of 1 needed signals still support":             func(w *world) { w.blind = true },
	"2 actions failed in cluster prod within an hour": tripped,
	"the verdict changed to host_failure":             func(w *world) { w.in.Diagnosis.Cause = "host_failure" },
}

// healed makes the pool recover by itself.
func healed(w *world) {
	w.sick = func(pod string, n int) map[string]float64 {
		v := exhausted(pod, 8)
		v["kv_usage"], v["kv_idle_usage"] = .3, 0
		return v
	}
}

// tripped makes two actions on another pool fail.
func tripped(w *world) {
	for _, id := range []state.ActionID{"ACT-8", "ACT-9"} {
		w.actions = append(w.actions, state.Action{ID: id, Incident: "INC-0", Kind: setArg, State: state.RolledBack,
			Target: state.Target{Cluster: "prod", Namespace: "llm", Pool: "other", Name: "other"},
			Steps:  []state.ActionStep{{State: state.Intent, At: w.clock.now}, {State: state.RolledBack, At: w.clock.now}}})
	}
}

func TestOldIntentIsJudgedAgain(t *testing.T) {
	for want, change := range later {
		for _, kind := range []string{setArg, restart} {
			t.Run(kind+" when "+want, func(t *testing.T) {
				w := newWorld(t, kind, policy.Approve)
				w.plan()
				w.approve(sre)
				w.until(state.Intent)
				w.clock.now = w.clock.now.Add(time.Minute) // the bot was away, or the API server was
				change(w)
				a := w.step()
				if a.State != state.Denied || !strings.Contains(a.Reason, want) {
					t.Errorf("%s: %s", a.State, a.Reason)
				}
				w.wantWrites(0)
			})
		}
	}
}

func TestStricterModeStopsAFreshIntent(t *testing.T) {
	for mode, set := range map[string]func(*world){
		"suggest": func(w *world) { w.cfg.Mode = policy.Suggest },
		"approve": func(w *world) { w.cfg.Policies = []policy.Policy{{Name: "careful", Mode: policy.Approve}} },
	} {
		for _, kind := range []string{setArg, restart} {
			w := newWorld(t, kind, policy.Auto)
			w.plan()
			w.until(state.Intent)
			set(w)
			if a := w.step(); a.State != state.Denied || !strings.Contains(a.Reason, "the mode changed to "+mode) {
				t.Errorf("%s in mode %s: %s %s", kind, mode, a.State, a.Reason)
			}
			w.wantWrites(0)
		}
	}
}

func TestOldIntentThatHoldsIsWrittenOnce(t *testing.T) { // 1
	for _, kind := range []string{setArg, restart} {
		w := newWorld(t, kind, policy.Approve)
		w.plan()
		w.approve(sre)
		w.until(state.Intent)
		w.clock.now = w.clock.now.Add(5 * time.Minute)
		w.until(state.Succeeded)
		w.wantWrites(map[string]int{setArg: 1, restart: 2}[kind])
	}
}

func TestHeldIntentWritesNothing(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	a := w.until(state.Intent)
	w.clock.now = w.clock.now.Add(time.Minute)
	w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "launch", Start: w.clock.now.Add(-time.Second),
		End: w.clock.now.Add(time.Hour)}}}}
	if got := w.step(); got.State != state.Intent || !strings.Contains(reasonOf(got, "freeze_window"), "launch") {
		t.Fatalf("%s %s", got.State, got.Reason)
	}
	for range 20 {
		if got, _ := w.Action(a.ID); got.State != state.Intent {
			break
		}
		w.take(w.bot().Run.Deliver(context.Background(), state.Effect{ID: "run", Action: a.ID}).Inputs)
		w.clock.now = w.clock.now.Add(time.Minute)
	}
	got, _ := w.Action(a.ID)
	if got.State != state.Superseded || w.actions[0].State != state.AwaitingApproval {
		t.Errorf("%s (%s), and then %s", got.State, got.Reason, w.actions[0].State)
	}
	w.wantWrites(0)
}

// reasonOf returns the last answer of a guard.
func reasonOf(a state.Action, guard string) string {
	i := slices.IndexFunc(a.Guards, func(g state.GuardResult) bool { return g.Guard == guard })
	if i < 0 {
		return ""
	}
	return a.Guards[i].Reason
}

// A drain takes minutes. If the action is forbidden meanwhile, the worker is kept.
func TestEvictionIsJudgedAgain(t *testing.T) {
	freeze := func(w *world) {
		w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "launch", Start: w.clock.now,
			End: w.clock.now.Add(time.Hour)}}}}
	}
	storm := func(w *world) {
		w.more = []state.Incident{{ID: "INC-9", Cluster: "prod", Status: state.StatusOpen,
			Scope: state.Scope{Namespace: "llm", Pods: pods(5)}}}
	}
	for want, change := range map[string]func(*world){
		"the mode changed to observe":                     later["mode observe (remediate.mode) does not write"],
		"among the approvers":                             later["not among the approvers"],
		"2 actions failed in cluster prod within an hour": tripped,
		"freeze window launch":                            freeze,
		"5 of 5 workers":                                  storm,
		"Paramedic itself runs in namespace llm":          func(w *world) { w.cfg.SelfNamespace = "llm" },
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t, restart, policy.Approve)
			w.plan()
			w.approve(sre)
			for w.actions[0].Journal["drained"] == "" {
				w.step()
			}
			w.clock.now = w.clock.now.Add(time.Minute)
			change(w)
			a := w.until(state.NeedsHuman)
			if !strings.Contains(a.Reason, want) || !strings.Contains(a.Reason, "the worker serves again") || evictions(w.cluster) != 0 {
				t.Errorf("%s, %d evictions", a.Reason, evictions(w.cluster))
			}
		})
	}
}

// A worker that left its Service is often missing from Prometheus too. That is no reason to keep
// it.
func TestIsolatedWorkerMayVanishFromTheMetrics(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.plan()
	w.approve(sre)
	for w.actions[0].Journal["isolated"] == "" {
		w.step()
	}
	sick := w.sick
	w.sick = func(pod string, n int) map[string]float64 {
		if pod == "vllm-llama-1" {
			return nil
		}
		return sick(pod, n)
	}
	w.until(state.Applied)
}

// Two runs of one pool cannot block each other: the run with the intent goes first.
func TestIntentGoesBeforeAnAdmittedRun(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Intent)
	other := copied(w.actions[0])
	other.ID, other.State, other.Incident = "ACT-0", state.Admitted, "INC-2"
	other.Steps = nil
	w.actions = append(w.actions, other)
	w.clock.now = w.clock.now.Add(time.Minute)
	if a := w.step(); a.State != state.Applied {
		t.Errorf("%s: %s", a.State, reasonOf(a, "lock"))
	}
}

func TestDrainMayOutliveTheApproval(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Limits: policy.Limits{ApprovalTTL: 3 * time.Minute}}}
	w.sick = func(pod string, n int) map[string]float64 {
		v := leaking(pod, n)
		v["requests_running"] = 3 // so that the drain takes all its time
		return v
	}
	w.plan()
	w.approve(sre)
	w.until(state.Applied)
}

func TestIDsAreInTheOrderOfPlanning(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	last := state.ActionID("")
	for i := range 20 {
		w.clock.now = w.clock.now.Add(time.Hour)
		w.cfg.Policies = []policy.Policy{{Limits: policy.Limits{Floor: []int{8, 200}[i%2]}}} // a plan of its own each time
		a := w.plan()
		if a.ID <= last {
			t.Fatalf("plan %d has the ID %s, the one before it %s", i, a.ID, last)
		}
		last = a.ID
	}
}
