package state

import (
	"fmt"
	"strings"
)

// approvalGuard is the guard that asks for a person's decision.
const approvalGuard = "approval"

// Blocking returns the guards' answers that keep a run in state s from writing. It leaves out the
// missing approval of a run that waits for one, just got one, or has ended.
func Blocking(guards []GuardResult, s ActionState) []GuardResult {
	var out []GuardResult
	for _, g := range guards {
		expected := g.Guard == approvalGuard &&
			(s == AwaitingApproval || g.Decision == Hold && (s == Approved || s.Done()))
		if g.Decision != Allow && !expected {
			out = append(out, g)
		}
	}
	return out
}

// GuardsSay returns one sentence with the number of guards that allow a run in state s, such as "13
// of 14 guards allow it." It names a missing approval if only that is missing. Every channel shows
// this sentence, so that all show the same number. It is empty if no guard was asked.
func GuardsSay(guards []GuardResult, s ActionState) string {
	allow, asked := 0, false
	for _, g := range guards {
		if g.Decision == Allow {
			allow++
		}
		asked = asked || g.Guard == approvalGuard && g.Decision == Hold
	}
	noun, verb := "guards", "allow"
	if len(guards) == 1 {
		noun, verb = "guard", "allows"
	}
	if s.Done() {
		verb = "allowed"
	}
	switch all := len(guards); {
	case all == 0:
		return ""
	case allow == all && all == 1:
		return "1 guard " + verb + " it."
	case allow == all:
		return fmt.Sprintf("All %d guards %s it.", all, verb)
	case asked && allow == all-1 && s == AwaitingApproval:
		return fmt.Sprintf("%d of %d %s %s it. Only the approval is missing.", allow, all, noun, verb)
	default:
		return fmt.Sprintf("%d of %d %s %s it.", allow, all, noun, verb)
	}
}

// GuardText returns the guards' answers in short: the first guard that blocks the run with its
// reason, or else [GuardsSay]. It is empty if no guard was asked.
func GuardText(guards []GuardResult, s ActionState) string {
	blocking := Blocking(guards, s)
	if len(blocking) == 0 {
		return GuardsSay(guards, s)
	}
	text := blocking[0].String()
	if more := len(blocking) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text + "."
}

// String returns the answer in words, such as "Guard freeze_window holds it: night until 07:00".
func (g GuardResult) String() string {
	verb := map[Decision]string{Allow: "allows", Hold: "holds", Deny: "denies"}[g.Decision]
	if verb == "" {
		verb = "answers " + string(g.Decision) + " to"
	}
	return fmt.Sprintf("Guard %s %s it: %s", g.Guard, verb, strings.TrimSuffix(g.Reason, "."))
}
