package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A verdict is one guard's answer. Its zero value denies.
type verdict struct {
	decision state.Decision
	reason   string
	retryAt  time.Time
}

func allow(format string, a ...any) verdict {
	return verdict{decision: state.Allow, reason: fmt.Sprintf(format, a...)}
}
func deny(format string, a ...any) verdict {
	return verdict{decision: state.Deny, reason: fmt.Sprintf(format, a...)}
}

func hold(until time.Time, format string, a ...any) verdict {
	return verdict{decision: state.Hold, reason: fmt.Sprintf(format, a...), retryAt: until}
}

// A Guard is one question that is asked before a write.
type Guard struct {
	name string
	// live guards need the live reads. They deny if those failed.
	live  bool
	check func(context.Context, *Scene) verdict
}

// All returns every guard, in the order in which they are asked.
func All() []Guard {
	return []Guard{
		{"kill_switch", false, killSwitch},
		{"mode", false, modeGuard},
		{"target", true, targetGuard},
		{"evidence", true, evidenceGuard},
		{"shared_cause", true, sharedCause},
		{"ownership", true, ownership},
		{"freeze_window", false, freezeWindow},
		{"lock", false, lockGuard},
		{"history", false, history},
		{"budget", true, budget},
		{"capacity", true, capacity},
		{"breaker", false, breaker},
		{"verifiability", true, verifiability},
		{"approval", false, approval},
	}
}

// Ask asks every guard of the list and returns their answers, in order.
func Ask(ctx context.Context, s *Scene, list []Guard) []state.GuardResult {
	out := make([]state.GuardResult, 0, len(list))
	for _, g := range list {
		var v verdict
		if g.live && s.Problem != nil {
			v = deny("no fresh reads of the cluster: %v", s.Problem)
		} else {
			v = g.check(ctx, s)
		}
		if v.decision != state.Allow && v.decision != state.Hold {
			v.decision = state.Deny
		}
		if v.reason == "" {
			v.decision, v.reason = state.Deny, "the guard gave no reason"
		}
		out = append(out, state.GuardResult{Guard: g.name, Decision: v.decision, Reason: v.reason, RetryAt: v.retryAt,
			At: s.Now})
	}
	if s.Site.Observe != nil {
		s.Site.Observe(out)
	}
	return out
}

// Weigh returns the strictest of the answers, the reasons of all that are as strict, and when to
// ask again.
func Weigh(results []state.GuardResult) (state.Decision, string, time.Time) {
	worst := state.Allow
	for _, g := range results {
		if g.Decision == state.Deny || g.Decision == state.Hold && worst == state.Allow {
			worst = g.Decision
		}
	}
	var reasons []string
	var retry time.Time
	for _, g := range results {
		if g.Decision == state.Allow || g.Decision != worst {
			continue
		}
		reasons = append(reasons, g.Guard+": "+g.Reason)
		if g.RetryAt.After(retry) {
			retry = g.RetryAt
		}
	}
	return worst, strings.Join(reasons, "; "), retry
}

// Without returns the guards without those named.
func Without(names ...string) []Guard {
	return slices.DeleteFunc(All(), func(g Guard) bool { return slices.Contains(names, g.name) })
}
