package state

import (
	"fmt"
	"slices"
	"strings"
)

// WhyNotApprove returns the reason why the person may not approve an action with these approvers,
// or an empty string. Every channel and the guard call it, so that they agree
// (docs/decisions/0029-one-rule-for-approvers.md). A viewer approves nothing. If policies name
// approvers, only these may approve, under either of their IDs. Otherwise a responder may.
func (a Actor) WhyNotApprove(approvers []string) string {
	named := func(id string) bool { return id != "" && slices.Contains(approvers, id) }
	list := strings.Join(approvers, ", ")
	switch {
	case a.Role != "" && !a.Role.Allows(Responder):
		return fmt.Sprintf("the role %s may not do this: it needs %s", a.Role, Responder)
	case len(approvers) == 0 && a.Role == "":
		return "no policy names approvers, so it takes a responder: give your entry of auth.api.tokens_file your " +
			"slack_user and the role responder"
	case len(approvers) == 0:
		return ""
	case a.Unverified:
		return "it has approvers (" + list + "), each with a token of their own, and no token vouches for this name"
	case !named(a.ID) && !named(a.Alias):
		return "not among the approvers of this action (remediate.policies[].approvers): " + list
	}
	return ""
}

// planShown is the number of characters of a plan's hash that people see and type.
const planShown = 8

// ShortPlan returns the beginning of a plan's hash, which people see and type to approve the plan.
func ShortPlan(hash string) string { return hash[:min(len(hash), planShown)] }

// IsPlan reports whether hash is the hash of the action's plan, or a prefix of it that is at least
// as long as [ShortPlan] returns.
func (a *Action) IsPlan(hash string) bool {
	return hash != "" && (hash == a.PlanHash || len(hash) >= planShown && strings.HasPrefix(a.PlanHash, hash))
}
