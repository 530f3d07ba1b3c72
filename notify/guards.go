package notify

import (
	"fmt"

	"paramedic/state"
)

// approvalGuard names the guard that holds an action until a person approves it.
const approvalGuard = "approval"

// GuardsSay returns one sentence with the number of guards that allow an action, such as "13 of 14
// guards allow it." It names a missing approval if only that is missing. Every channel shows this
// sentence, so that all of them show the same number: the recorded answers. It is empty if no guard
// was asked.
func GuardsSay(guards []state.GuardResult, in state.ActionState) string {
	allow, asked := 0, false
	for _, g := range guards {
		if g.Decision == state.Allow {
			allow++
		}
		asked = asked || g.Guard == approvalGuard && g.Decision == state.Hold
	}
	verb := "allow"
	switch {
	case in.Done():
		verb = "allowed"
	case len(guards) == 1:
		verb = "allows"
	}
	switch all := len(guards); {
	case all == 0:
		return ""
	case allow == all && all == 1:
		return "1 guard " + verb + " it."
	case allow == all:
		return fmt.Sprintf("All %d guards %s it.", all, verb)
	case asked && allow == all-1 && in == state.AwaitingApproval:
		return fmt.Sprintf("%d of %d guards %s it. Only the approval is missing.", allow, all, verb)
	default:
		return fmt.Sprintf("%d of %s %s it.", allow, count(all, "guard"), verb)
	}
}

// GuardsSay returns the sentence of [GuardsSay] for the offer.
func (o Offer) GuardsSay() string { return GuardsSay(o.Guards, o.State) }
