package guard

import (
	"context"
	"errors"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/policy"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

func TestGuardWithoutAClearAnswerDenies(t *testing.T) {
	always := func(v verdict) func(context.Context, *Scene) verdict {
		return func(context.Context, *Scene) verdict { return v }
	}
	for name, c := range map[string]struct {
		g       Guard
		problem error
		want    state.Decision
		says    string
	}{
		"allows":                          {Guard{check: always(allow("yes"))}, nil, state.Allow, "yes"},
		"holds":                           {Guard{check: always(hold(noon, "wait"))}, nil, state.Hold, "wait"},
		"answers nothing":                 {Guard{check: always(verdict{})}, nil, state.Deny, "the guard gave no reason"},
		"allows without a reason":         {Guard{check: always(verdict{decision: state.Allow})}, nil, state.Deny, "the guard gave no reason"},
		"answers an unknown word":         {Guard{check: always(verdict{decision: "perhaps", reason: "hm"})}, nil, state.Deny, "hm"},
		"needs reads that failed":         {Guard{live: true, check: always(allow("yes"))}, errors.New("no route"), state.Deny, "no fresh reads of the cluster: no route"},
		"needs reads":                     {Guard{live: true, check: always(allow("yes"))}, nil, state.Allow, "yes"},
		"needs none of the reads, failed": {Guard{check: always(allow("yes"))}, errors.New("no route"), state.Allow, "yes"},
	} {
		s := sceneOf(playbooks.ActionSetEngineArg)
		s.Problem = c.problem
		if got := Ask(t.Context(), s, []Guard{c.g})[0]; got.Decision != c.want || got.Reason != c.says {
			t.Errorf("%s: %s %q", name, got.Decision, got.Reason)
		}
	}
}

// Guards that judge live reads deny if the reads failed.
func TestFailedReadsDeny(t *testing.T) {
	s := sceneOf(playbooks.ActionSetEngineArg)
	s.Problem = errors.New("no route")
	denied := map[string]bool{}
	for _, g := range Ask(t.Context(), s, All()) {
		denied[g.Guard] = g.Decision == state.Deny && g.Reason == "no fresh reads of the cluster: no route"
	}
	for _, name := range []string{"target", "evidence", "shared_cause", "ownership", "budget", "capacity", "verifiability"} {
		if !denied[name] {
			t.Errorf("%s does not deny", name)
		}
	}
}

func TestStrictestAnswerIsWeighed(t *testing.T) {
	at := func(g string, d state.Decision, retry time.Duration) state.GuardResult {
		r := state.GuardResult{Guard: g, Decision: d, Reason: "r" + g}
		if retry > 0 {
			r.RetryAt = noon.Add(retry)
		}
		return r
	}
	a, early, late, no := at("a", state.Allow, 0), at("b", state.Hold, time.Minute), at("c", state.Hold, time.Hour), at("d", state.Deny, 0)
	for name, c := range map[string]struct {
		list  []state.GuardResult
		want  state.Decision
		why   string
		retry time.Time
	}{
		"all allow":              {[]state.GuardResult{a, a}, state.Allow, "", time.Time{}},
		"one holds":              {[]state.GuardResult{a, early, a}, state.Hold, "b: rb", noon.Add(time.Minute)},
		"the longest hold":       {[]state.GuardResult{late, early}, state.Hold, "c: rc; b: rb", noon.Add(time.Hour)},
		"the longest hold, last": {[]state.GuardResult{early, late}, state.Hold, "b: rb; c: rc", noon.Add(time.Hour)},
		"a deny after a hold":    {[]state.GuardResult{early, no, a}, state.Deny, "d: rd", time.Time{}},
		"a hold after a deny":    {[]state.GuardResult{no, early}, state.Deny, "d: rd", time.Time{}},
	} {
		got, why, retry := Weigh(c.list)
		if got != c.want || why != c.why || !retry.Equal(c.retry) {
			t.Errorf("%s: %s %q %s", name, got, why, retry)
		}
	}
}

func TestReasonsReadAsSentences(t *testing.T) {
	for got, want := range map[string]string{inParens(nil): "", inParens([]string{"asha", "lin"}): " (asha, lin)", orNone(nil): "none",
		orNone([]string{"a", "b"}): "a, b", HaltedBy(state.Halt{Actor: state.Actor{ID: "asha"}, Reason: "drill"}): "asha: drill",
		HaltedBy(state.Halt{Actor: state.Actor{ID: "asha"}}): "asha"} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHaltDeniesEverything(t *testing.T) {
	by := state.Actor{ID: "asha", Name: "asha"}
	halted := func(reason string) func(*Scene) {
		return func(s *Scene) { s.Site.View.(*remediatetest.View).Halt = &state.Halt{Actor: by, Reason: reason} }
	}
	runGuardCases(t, killSwitch, []guardCase{
		{name: "not halted", want: state.Allow},
		{name: "halted", set: halted(""), want: state.Deny, says: "first aid in cluster prod was halted by asha"},
		{name: "halted for a reason", set: halted("game day"), want: state.Deny, says: "asha: game day"},
	})
}

func TestModesThatOnlyReadDeny(t *testing.T) {
	for m, want := range map[policy.Mode]state.Decision{policy.Observe: state.Deny, policy.Suggest: state.Deny, policy.Approve: state.Allow,
		policy.Auto: state.Allow, "": state.Deny} {
		s := sceneOf(playbooks.ActionSetEngineArg)
		s.Rule.Mode = m
		if got := modeGuard(t.Context(), s); got.decision != want {
			t.Errorf("%q: %s", m, got.decision)
		}
	}
}

func TestFreezeWindowHoldsUntilItEnds(t *testing.T) { // noon is a Monday, 12:00 UTC
	frozen := func(w policy.FreezeWindow) func(*Scene) {
		return func(s *Scene) {
			w.Name = "w"
			s.Rule.Freeze = []policy.FreezeWindow{{Name: "past", From: "01:00", To: "02:00"}, w}
		}
	}
	from := func(start, end time.Duration) policy.FreezeWindow {
		return policy.FreezeWindow{Start: noon.Add(start), End: noon.Add(end)}
	}
	daily := func(from, to string, days ...string) policy.FreezeWindow {
		return policy.FreezeWindow{From: from, To: to, Days: days}
	}
	in := func(zone string, w policy.FreezeWindow) policy.FreezeWindow { w.Zone = zone; return w }
	runGuardCases(t, freezeWindow, []guardCase{
		{name: "none", want: state.Allow},
		{name: "once, now", set: frozen(from(-time.Hour, time.Hour)), want: state.Hold, says: "ends at 2026-03-02 13:00 UTC", free: time.Hour},
		{name: "once, beginning now", set: frozen(from(0, time.Hour)), want: state.Hold, free: time.Hour},
		{name: "once, ending now", set: frozen(from(-time.Hour, 0)), want: state.Allow},
		{name: "once, later", set: frozen(from(moment, time.Hour)), want: state.Allow},
		{name: "once, for no time", set: frozen(from(0, 0)), want: state.Deny, says: "end must be after start"},
		{name: "once, without an end", set: frozen(policy.FreezeWindow{Start: noon}), want: state.Deny, says: "end must be after start"},
		{name: "once, from ever", set: frozen(policy.FreezeWindow{End: noon.Add(time.Hour)}), want: state.Hold, free: time.Hour},
		{name: "daily, now", set: frozen(daily("11:00", "13:00")), want: state.Hold, free: time.Hour},
		{name: "daily, beginning now", set: frozen(daily("12:00", "13:00")), want: state.Hold, free: time.Hour},
		{name: "daily, ending now", set: frozen(daily("11:00", "12:00")), want: state.Allow},
		{name: "daily, over midnight, since yesterday", set: frozen(daily("13:00", "12:30")), want: state.Hold, free: 30 * time.Minute},
		{name: "daily, over midnight, not now", set: frozen(daily("22:00", "07:00")), want: state.Allow},
		{name: "daily, all day", set: frozen(daily("12:00", "12:00")), want: state.Hold, free: 24 * time.Hour},
		{name: "today", set: frozen(daily("11:00", "13:00", "fri", "Mon")), want: state.Hold, free: time.Hour},
		{name: "another day", set: frozen(daily("11:00", "13:00", "tue", "sun")), want: state.Allow},
		{name: "since yesterday, of that day", set: frozen(daily("13:00", "12:30", "sun")), want: state.Hold, free: 30 * time.Minute},
		{name: "since yesterday, not of that day", set: frozen(daily("13:00", "12:30", "mon")), want: state.Allow},
		{name: "another zone, now", set: frozen(in("Asia/Tokyo", daily("20:00", "22:00"))), want: state.Hold, free: time.Hour},
		{name: "another zone, not now", set: frozen(in("Asia/Tokyo", daily("11:00", "13:00"))), want: state.Allow},
		{name: "unknown zone", set: frozen(in("Mars/Olympus", daily("11:00", "13:00"))), want: state.Deny, says: "is not valid"},
		{name: "unknown day", set: frozen(daily("01:00", "02:00", "someday")), want: state.Deny, says: "someday"},
		{name: "no beginning", set: frozen(daily("", "13:00")), want: state.Deny, says: "is not valid"},
		{name: "no ending", set: frozen(daily("11:00", "")), want: state.Deny, says: "is not valid"},
	})
}

func TestApprovalIsOfThisPlanAndInTime(t *testing.T) {
	// A responder approved the plan a minute ago, through the API.
	approved := func(change func(*Scene)) func(*Scene) {
		return func(s *Scene) {
			s.Rule.Mode, s.Action.Mode, s.Action.State = policy.Approve, "approve", state.Approved
			s.Action.PlanHash = PlanHash(s.Action)
			s.Action.DecidedBy, s.Action.DecidedAt = state.Actor{ID: "asha", Via: "api", Role: state.Responder}, noon.Add(-time.Minute)
			s.Action.ExpiresAt = noon.Add(14 * time.Minute)
			if change != nil {
				change(s)
			}
		}
	}
	expired := func(decided, expires time.Duration) func(*Scene) {
		return approved(func(s *Scene) { s.Action.DecidedAt, s.Action.ExpiresAt = noon.Add(decided), noon.Add(expires) })
	}
	waiting := func(st state.ActionState, m policy.Mode) func(*Scene) {
		return approved(func(s *Scene) { s.Action.State, s.Rule.Mode = st, m })
	}
	runGuardCases(t, approval, []guardCase{
		{name: "approved", set: approved(nil), want: state.Allow, says: "approved by"},
		{name: "nobody", set: approved(func(s *Scene) { s.Action.DecidedBy = state.Actor{Via: "api", Role: state.Responder} }), want: state.Deny, says: "no person has approved it"},
		{name: "at no time", set: approved(func(s *Scene) { s.Action.DecidedAt = time.Time{} }), want: state.Deny, says: "no person has approved it"},
		{name: "another plan", set: approved(func(s *Scene) { s.Action.Params["to"] = "8" }), want: state.Deny, says: "the plan changed since its approval"},
		{name: "just in time", set: expired(-moment, 0), want: state.Allow},
		{name: "just too late", set: expired(0, 0), want: state.Deny, says: "expired"},
		{name: "in time, and long ago", set: expired(-30*time.Minute, -15*time.Minute), want: state.Deny, says: "expired"},
		{name: "in time, and not too long ago", set: expired(-30*time.Minute, -15*time.Minute+moment), want: state.Allow},
		{name: "not proposed yet", set: waiting("", policy.Approve), want: state.Hold, says: "waits for approval"},
		{name: "proposed", set: waiting(state.Proposed, policy.Approve), want: state.Hold, says: "waits for approval"},
		{name: "asked", set: waiting(state.AwaitingApproval, policy.Approve), want: state.Hold, says: "waits for approval"},
		{name: "nothing to ask", set: waiting(state.Proposed, policy.Suggest), want: state.Deny, says: "mode suggest takes no approvals"},
		{name: "auto asks nobody", want: state.Allow, says: "needs no approval"},
		{name: "auto by now, planned to be asked", set: func(s *Scene) { s.Action.Mode = "approve" }, want: state.Hold, says: "waits for approval"},
		{name: "planned as auto, asked by now", set: func(s *Scene) { s.Rule.Mode = policy.Approve }, want: state.Hold, says: "waits for approval"},
	})
}
