package guard

import (
	"context"
	"strings"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// killSwitch denies while first aid is halted.
func killSwitch(_ context.Context, s *Scene) verdict {
	if h, halted := s.Site.View.Halted(s.Action.Target.Cluster); halted {
		return deny("first aid in cluster %s was halted by %s", s.Action.Target.Cluster, HaltedBy(h))
	}
	return allow("first aid is not halted")
}

// modeGuard denies in the modes observe and suggest, which never write.
func modeGuard(_ context.Context, s *Scene) verdict {
	if !s.Rule.Mode.Writes() {
		return deny("mode %s (%s) does not write: a person must do this", s.Rule.Mode, s.Rule.Because)
	}
	return allow("mode %s (%s) may write", s.Rule.Mode, s.Rule.Because)
}

// freezeWindow holds while a policy freezes changes.
func freezeWindow(_ context.Context, s *Scene) verdict {
	for _, w := range s.Rule.Freeze {
		in, end, err := w.Covers(s.Now)
		if err != nil {
			return deny("freeze window %s is not valid: %v", w.Name, err)
		}
		if in {
			return hold(end, "freeze window %s ends at %s", w.Name, end.Format("2006-01-02 15:04 MST"))
		}
	}
	return allow("no freeze window is open")
}

// approval allows, in mode approve, if an approver accepted exactly this plan in time. Mode auto
// asks no person.
func approval(_ context.Context, s *Scene) verdict {
	a := s.Action
	if s.Rule.Mode == policy.Auto && policy.Mode(a.Mode) == policy.Auto {
		return allow("mode auto needs no approval")
	}
	if a.State == "" || a.State == state.Proposed || a.State == state.AwaitingApproval {
		if !s.Rule.Mode.Writes() {
			return deny("mode %s takes no approvals", s.Rule.Mode)
		}
		if s.Rule.NoApprover() {
			return deny("the policies of this action share no approver: name the same person, with the same ID, in each of them")
		}
		return hold(a.ExpiresAt, "waits for approval%s", inParens(s.Rule.Approvers))
	}
	by, at := a.DecidedBy, s.Now
	if !a.Write.At.IsZero() { // the intent used the approval up; unlike its step, it moves with the clock
		at = a.Write.At
	}
	switch {
	case by.ID == "" || a.DecidedAt.IsZero():
		return deny("no person has approved it")
	case a.PlanHash != PlanHash(a):
		return deny("the plan changed since its approval")
	case !a.DecidedAt.Before(a.ExpiresAt) || !at.Before(s.Site.ApprovedUntil(a, s.Rule)):
		return deny("the approval expired at %s", s.Site.ApprovedUntil(a, s.Rule).Format("15:04:05 MST"))
	case s.Rule.NoApprover():
		return deny("the policies of this action share no approver")
	}
	if why := by.WhyNotApprove(s.Rule.Approvers); why != "" {
		return deny("%s may not approve: %s", by, why)
	}
	return allow("approved by %s at %s", by, a.DecidedAt.Format("15:04:05 MST"))
}

// inParens lists the approvers for a message.
func inParens(approvers []string) string {
	if len(approvers) == 0 {
		return ""
	}
	return " (" + strings.Join(approvers, ", ") + ")"
}

// HaltedBy names the person who halted first aid, and the reason if there is one.
func HaltedBy(h state.Halt) string {
	if h.Reason == "" {
		return h.Actor.String()
	}
	return h.Actor.String() + ": " + h.Reason
}
