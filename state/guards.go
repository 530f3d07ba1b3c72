package state

import "fmt"

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

// GuardCount returns how many guards allow a run: "14 guards allow it", or "13 of 14 guards allow
// it". Every channel shows this count.
func GuardCount(guards []GuardResult) string {
	allow := 0
	for _, g := range guards {
		if g.Decision == Allow {
			allow++
		}
	}
	noun, verb := "guards", "allow"
	if len(guards) == 1 {
		noun = "guard"
	}
	if allow == 1 {
		verb = "allows"
	}
	if allow < len(guards) {
		return fmt.Sprintf("%d of %d %s %s it", allow, len(guards), noun, verb)
	}
	return fmt.Sprintf("%d %s %s it", allow, noun, verb)
}

// GuardText returns the guards' answers in one line: the first guard that blocks the run with its
// reason, or else the count. It is empty if no guard was asked.
func GuardText(guards []GuardResult, s ActionState) string {
	if len(guards) == 0 {
		return ""
	}
	blocking := Blocking(guards, s)
	if len(blocking) == 0 {
		text := GuardCount(guards)
		if s == AwaitingApproval {
			text += "; it waits for approval"
		}
		return text
	}
	text := blocking[0].String()
	if more := len(blocking) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// String returns the answer in words, such as "guard freeze_window holds it: night until 07:00".
func (g GuardResult) String() string {
	verb := map[Decision]string{Allow: "allows", Hold: "holds", Deny: "denies"}[g.Decision]
	if verb == "" {
		verb = "answers " + string(g.Decision) + " to"
	}
	return fmt.Sprintf("guard %s %s it: %s", g.Guard, verb, g.Reason)
}
