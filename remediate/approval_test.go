package remediate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate"
	"paramedic/remediate/policy"
	"paramedic/state"
)

func TestUnlistedApproverIsRefused(t *testing.T) { // 17
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Name: "gpu team", Approvers: []string{"lin"}}}
	w.plan()
	w.approve(sre)
	a := w.step()
	w.wantDenied(a, "approval")
	w.wantWrites(0)
}

func TestUnverifiedNameIsNoApprover(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Name: "gpu team", Approvers: []string{"asha"}}}
	w.plan()
	by := sre
	by.Unverified = true
	w.approve(by)
	w.wantDenied(w.step(), "approval")
	w.wantWrites(0)
}

// An approval counts for the person, not for the channel through which it came.
func TestApprovalDependsOnPersonNotChannel(t *testing.T) { // 17
	slack, api := state.Actor{ID: "U0ASHA", Via: "slack", Role: state.Responder, Alias: "asha"}, state.Actor{ID: "asha", Name: "asha",
		Via: "api", Role: state.Responder, Alias: "U0ASHA"}
	guest := state.Actor{ID: "U0GUEST", Via: "slack"}
	viewer := state.Actor{ID: "U0ASHA", Via: "slack", Role: state.Viewer, Alias: "asha"}
	for _, c := range []struct {
		approvers []string
		by        state.Actor
		want      string // of the reason to deny; empty: allowed
	}{
		{nil, api, ""},
		{nil, slack, ""},
		{nil, guest, "no policy names approvers, so it takes a responder"},
		{nil, viewer, "the role viewer may not do this"},
		{[]string{"asha"}, slack, ""},
		{[]string{"asha"}, api, ""},
		{[]string{"U0ASHA"}, slack, ""},
		{[]string{"U0ASHA"}, api, ""},
		{[]string{"U0GUEST"}, guest, ""},
		{[]string{"U0ASHA"}, viewer, "the role viewer may not do this"},
		{[]string{"lin"}, slack, "not among the approvers of this action (remediate.policies[].approvers): lin"},
		{[]string{"lin"}, api, "not among the approvers of this action (remediate.policies[].approvers): lin"},
	} {
		w := newWorld(t, setArg, policy.Approve)
		w.cfg.Policies = []policy.Policy{{Name: "gpu team", Approvers: c.approvers}}
		w.plan()
		w.approve(c.by)
		a := w.step()
		if c.want == "" {
			if a.State != state.Admitted {
				t.Errorf("%s of %v: %s %s", c.by, c.approvers, a.State, a.Reason)
			}
			continue
		}
		if w.wantDenied(a, "approval"); !strings.Contains(a.Reason, c.want) {
			t.Errorf("%s of %v is denied because %q, want %q", c.by, c.approvers, a.Reason, c.want)
		}
		w.wantWrites(0)
	}
}

// If two policies leave no person who may approve, the plan says so at once and does not wait.
func TestDisjointApproversDenyThePlan(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Name: "1", Approvers: []string{"asha"}}, {Name: "2", Approvers: []string{"lin"}}}
	a := w.plan()
	if w.wantDenied(a, "approval"); a.State != state.Denied || !strings.Contains(a.Reason, "share no approver") {
		t.Errorf("%s: %s", a.State, a.Reason)
	}

	w = newWorld(t, setArg, policy.Approve)
	w.plan()
	w.approve(sre)
	w.cfg.Policies = []policy.Policy{{Name: "1", Approvers: []string{"asha"}}, {Name: "2", Approvers: []string{"lin"}}}
	w.wantDenied(w.step(), "approval") // the policies came after the approval
	w.wantWrites(0)
}

// A plan is shown again if a changed configuration names other approvers.
func TestNewApproversGetANewPlan(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	old := w.plan()
	w.cfg.Policies = []policy.Policy{{Name: "1", Approvers: []string{"lin"}}}
	a := w.plan()
	if was, _ := w.Action(old.ID); was.State != state.Superseded || a.ID == old.ID || !slices.Equal(a.Approvers, []string{"lin"}) {
		t.Errorf("the old plan is %s, the new one is for %v", was.State, a.Approvers)
	}
}

// The general limits loosen the defaults. A matching policy tightens them again.
func TestGeneralLimitsReplaceTheDefaults(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Limits = policy.Limits{ApprovalTTL: time.Hour, PerIncident: 4}
	if a := w.plan(); !a.ExpiresAt.Equal(w.clock.now.Add(time.Hour)) {
		t.Errorf("it waits for approval until %s, want an hour", a.ExpiresAt)
	}
	w.clock.now = w.clock.now.Add(59 * time.Minute)
	w.approve(sre)
	a := w.step()
	if i := slices.IndexFunc(a.Guards, func(g state.GuardResult) bool { return g.Guard == "history" }); i < 0 ||
		!strings.Contains(a.Guards[i].Reason, "0 of 4 actions in this incident") || a.State == state.Expired {
		t.Errorf("%s: %+v", a.State, a.Guards)
	}

	w = newWorld(t, setArg, policy.Approve)
	w.cfg.Limits = policy.Limits{ApprovalTTL: time.Hour}
	w.cfg.Policies = []policy.Policy{{Name: "1", Pools: []string{"vllm-llama"}, Limits: policy.Limits{ApprovalTTL: 10 * time.Minute}},
		{Name: "2", Pools: []string{"other"}, Limits: policy.Limits{ApprovalTTL: time.Minute}}}
	if a := w.plan(); !a.ExpiresAt.Equal(w.clock.now.Add(10 * time.Minute)) {
		t.Errorf("it waits for approval until %s, want ten minutes", a.ExpiresAt)
	}
}

// First aid refuses limits beyond their bounds, and policies that would loosen.
func TestFirstAidRefusesWrongLimits(t *testing.T) {
	for want, change := range map[string]func(*remediate.Config){
		"remediate.limits.cooldown: must be from 5m to 24h, and is 1m": func(c *remediate.Config) { c.Limits.Cooldown = time.Minute },
		"(gpu): limits.cooldown: 5m has no effect": func(c *remediate.Config) {
			c.Policies = []policy.Policy{{Name: "gpu", Limits: policy.Limits{Cooldown: 5 * time.Minute}}}
		},
		"remediate.limits.floor: 64 is above the ceiling of 32":               func(c *remediate.Config) { c.Limits.Floor, c.Limits.Ceiling = 64, 32 },
		"remediate.limits.eviction_percent: must be from 1 to 50, and is 100": func(c *remediate.Config) { c.Limits.EvictionPercent = 100 },
		"remediate.limits.per_target_day: must be from 1 to 12, and is -1":    func(c *remediate.Config) { c.Limits.PerTargetDay = -1 },
	} {
		c := newWorld(t, setArg, policy.Approve).cfg
		change(&c)
		if _, err := remediate.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Two policies for one pool may leave no value between floor and ceiling. Then no value is set.
func TestFloorAboveTheCeilingSetsNothing(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Name: "1", Limits: policy.Limits{Floor: 256}}, {Name: "2", Limits: policy.Limits{Ceiling: 128}}}
	a := w.plan()
	if w.wantDenied(a, "plan"); !strings.Contains(a.Reason, "the floor of 256 is above the ceiling of 128") {
		t.Error(a.Reason)
	}
}

// max_factor bounds a step upwards as it bounds one downwards.
func TestFactorBoundsAStepUpwards(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.remedy.Params["direction"] = "raise"
	w.cfg.Limits.MaxFactor = 1.25
	w.sick = func(string, int) map[string]float64 {
		return map[string]float64{"kv_usage": .2, "kv_blocks_total": 100000, "kv_block_size": 16, "prompt_length_mean": 500,
			"output_length_mean": 100,
			"requests_running":   256, "requests_waiting": 90, "ttft_p95": 8, "preemption_rate": 0, "error_rate": 0}
	}
	if a := w.plan(); a.Params["to"] != "320" {
		t.Errorf("%s %s: %s", a.Change, a.Why, a.Reason)
	}
}
