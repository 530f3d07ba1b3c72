package remediate

import (
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// An approval counts where it was given by a person who may, to this plan, before it expired, and
// is used before it is stale. Every other answer holds or denies.
func TestApprovalGuardAnswers(t *testing.T) {
	at := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	good := func() *scene {
		a := &state.Action{ID: "ACT-1", Kind: "set_engine_arg", Mode: "approve", State: state.Approved, ExpiresAt: at.Add(15 * time.Minute),
			DecidedBy: state.Actor{ID: "asha", Role: state.Responder}, DecidedAt: at.Add(time.Minute)}
		a.PlanHash = planHash(a)
		return &scene{site: &Site{}, now: at.Add(2 * time.Minute), act: a, rule: rule{Limits: Limits{}.OrDefaults(), mode: Approve}}
	}
	for name, c := range map[string]struct {
		change func(*scene)
		want   state.Decision
		says   string
	}{
		"in time":                   {func(*scene) {}, state.Allow, "approved by asha"},
		"used late":                 {func(s *scene) { s.now = at.Add(30*time.Minute - 1) }, state.Allow, "approved by asha"},
		"used too late":             {func(s *scene) { s.now = at.Add(30 * time.Minute) }, state.Deny, "expired"},
		"given at the expiry":       {func(s *scene) { s.act.DecidedAt = s.act.ExpiresAt }, state.Deny, "expired"},
		"given by no person":        {func(s *scene) { s.act.DecidedBy = state.Actor{Role: state.Responder} }, state.Deny, "nobody approved it"},
		"given at no time":          {func(s *scene) { s.act.DecidedAt = time.Time{} }, state.Deny, "nobody approved it"},
		"of another plan":           {func(s *scene) { s.act.Params = map[string]string{"to": "8"} }, state.Deny, "not the one that was approved"},
		"of another target":         {func(s *scene) { s.act.Target.UID = "other" }, state.Deny, "not the one that was approved"},
		"not given yet":             {func(s *scene) { s.act.State = state.AwaitingApproval }, state.Hold, "waits for approval"},
		"not asked in mode suggest": {func(s *scene) { s.act.State, s.rule.mode = state.Proposed, Suggest }, state.Deny, "nobody is asked"},
		"not asked in mode observe": {func(s *scene) { s.act.State, s.rule.mode = "", Observe }, state.Deny, "nobody is asked"},
		"auto":                      {func(s *scene) { s.act.State, s.act.Mode, s.rule.mode = state.Proposed, "auto", Auto }, state.Allow, "mode auto asks nobody"},
		"auto since it was planned": {func(s *scene) { s.act.State, s.rule.mode = state.Proposed, Auto }, state.Hold, "waits for approval"},
		"auto when it was planned":  {func(s *scene) { s.act.State, s.act.Mode = state.Proposed, "auto" }, state.Hold, "waits for approval"},
	} {
		s := good()
		c.change(s)
		if v := approval(t.Context(), s); v.decision != c.want || !strings.Contains(v.reason, c.says) {
			t.Errorf("%s: %s %q, want %s %q", name, v.decision, v.reason, c.want, c.says)
		}
	}
}

// A freeze window holds until its end, and one that cannot be read denies.
func TestFreezeWindowHoldsOrDenies(t *testing.T) {
	at := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		window FreezeWindow
		want   state.Decision
		until  time.Time
	}{
		"now":        {FreezeWindow{Name: "night", From: "22:00", To: "06:00"}, state.Hold, at.Add(3 * time.Hour)},
		"once":       {FreezeWindow{Start: at.Add(-time.Hour), End: at.Add(time.Hour)}, state.Hold, at.Add(time.Hour)},
		"at its end": {FreezeWindow{Start: at.Add(-time.Hour), End: at}, state.Allow, time.Time{}},
		"later":      {FreezeWindow{From: "03:01", To: "04:00"}, state.Allow, time.Time{}},
		"unreadable": {FreezeWindow{From: "22:00", To: "06:00", Zone: "Mars/Olympus"}, state.Deny, time.Time{}},
		"no times":   {FreezeWindow{}, state.Deny, time.Time{}},
	} {
		s := &scene{now: at, rule: rule{freeze: []FreezeWindow{{From: "12:00", To: "13:00"}, c.window}}}
		if v := freezeWindow(t.Context(), s); v.decision != c.want || !v.retryAt.Equal(c.until) {
			t.Errorf("%s: %s until %s: %s", name, v.decision, v.retryAt, v.reason)
		}
	}
}
