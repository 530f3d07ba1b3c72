package guard

import (
	"strings"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// An approval counts if an approver gave it to this plan before it expired, and if it is used in
// time. Otherwise the guard holds or denies.
func TestApprovalGuardAnswers(t *testing.T) {
	at := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	good := func() *Scene {
		a := &state.Action{ID: "ACT-1", Kind: "set_engine_arg", Mode: "approve", State: state.Approved, ExpiresAt: at.Add(15 * time.Minute),
			DecidedBy: state.Actor{ID: "asha", Role: state.Responder}, DecidedAt: at.Add(time.Minute)}
		a.PlanHash = PlanHash(a)
		return &Scene{Site: &Site{}, Now: at.Add(2 * time.Minute), Action: a,
			Rule: policy.Rule{Limits: policy.Limits{}.OrDefaults(), Mode: policy.Approve}}
	}
	for name, c := range map[string]struct {
		change func(*Scene)
		want   state.Decision
		says   string
	}{
		"in time":       {func(*Scene) {}, state.Allow, "approved by asha"},
		"used late":     {func(s *Scene) { s.Now = at.Add(30*time.Minute - 1) }, state.Allow, "approved by asha"},
		"used too late": {func(s *Scene) { s.Now = at.Add(30 * time.Minute) }, state.Deny, "expired"},
		"used in time, then the clock was set back": {func(s *Scene) {
			s.Action.Steps, s.Action.Write.At = []state.ActionStep{{State: state.Intent, At: s.Now}}, s.Now
			s.Action.MoveClock(-time.Hour)
			s.Now = s.Now.Add(-50 * time.Minute)
		}, state.Allow, "approved by asha"},
		"given at the expiry":       {func(s *Scene) { s.Action.DecidedAt = s.Action.ExpiresAt }, state.Deny, "expired"},
		"given by no person":        {func(s *Scene) { s.Action.DecidedBy = state.Actor{Role: state.Responder} }, state.Deny, "no person has approved it"},
		"given at no time":          {func(s *Scene) { s.Action.DecidedAt = time.Time{} }, state.Deny, "no person has approved it"},
		"of another plan":           {func(s *Scene) { s.Action.Params = map[string]string{"to": "8"} }, state.Deny, "the plan changed since its approval"},
		"of another target":         {func(s *Scene) { s.Action.Target.UID = "other" }, state.Deny, "the plan changed since its approval"},
		"not given yet":             {func(s *Scene) { s.Action.State = state.AwaitingApproval }, state.Hold, "waits for approval"},
		"not asked in mode suggest": {func(s *Scene) { s.Action.State, s.Rule.Mode = state.Proposed, policy.Suggest }, state.Deny, "takes no approvals"},
		"not asked in mode observe": {func(s *Scene) { s.Action.State, s.Rule.Mode = "", policy.Observe }, state.Deny, "takes no approvals"},
		"auto":                      {func(s *Scene) { s.Action.State, s.Action.Mode, s.Rule.Mode = state.Proposed, "auto", policy.Auto }, state.Allow, "mode auto needs no approval"},
		"auto since it was planned": {func(s *Scene) { s.Action.State, s.Rule.Mode = state.Proposed, policy.Auto }, state.Hold, "waits for approval"},
		"auto when it was planned":  {func(s *Scene) { s.Action.State, s.Action.Mode = state.Proposed, "auto" }, state.Hold, "waits for approval"},
	} {
		s := good()
		c.change(s)
		if v := approval(t.Context(), s); v.decision != c.want || !strings.Contains(v.reason, c.says) {
			t.Errorf("%s: %s %q, want %s %q", name, v.decision, v.reason, c.want, c.says)
		}
	}
}

// A freeze window holds until its end. A window that cannot be read denies.
func TestFreezeWindowHoldsOrDenies(t *testing.T) {
	at := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		window policy.FreezeWindow
		want   state.Decision
		until  time.Time
	}{
		"now":        {policy.FreezeWindow{Name: "night", From: "22:00", To: "06:00"}, state.Hold, at.Add(3 * time.Hour)},
		"once":       {policy.FreezeWindow{Start: at.Add(-time.Hour), End: at.Add(time.Hour)}, state.Hold, at.Add(time.Hour)},
		"at its end": {policy.FreezeWindow{Start: at.Add(-time.Hour), End: at}, state.Allow, time.Time{}},
		"later":      {policy.FreezeWindow{From: "03:01", To: "04:00"}, state.Allow, time.Time{}},
		"unreadable": {policy.FreezeWindow{From: "22:00", To: "06:00", Zone: "Mars/Olympus"}, state.Deny, time.Time{}},
		"no times":   {policy.FreezeWindow{}, state.Deny, time.Time{}},
	} {
		s := &Scene{Now: at, Rule: policy.Rule{Freeze: []policy.FreezeWindow{{From: "12:00", To: "13:00"}, c.window}}}
		if v := freezeWindow(t.Context(), s); v.decision != c.want || !v.retryAt.Equal(c.until) {
			t.Errorf("%s: %s until %s: %s", name, v.decision, v.retryAt, v.reason)
		}
	}
}
