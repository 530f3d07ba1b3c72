package state

import (
	"fmt"
	"slices"
	"strings"
)

// WhyNotApprove returns why the person may not approve an action with these approvers, or nothing
// where the person may. Every door and the guard ask it, so that they agree
// (docs/decisions/0029-one-rule-for-approvers.md). A viewer approves nothing. Where policies name
// approvers, only these may, under either of their names; elsewhere a responder may.
func (a Actor) WhyNotApprove(approvers []string) string {
	named := func(id string) bool { return id != "" && slices.Contains(approvers, id) }
	list := strings.Join(approvers, ", ")
	switch {
	case a.Role != "" && !a.Role.Allows(Responder):
		return fmt.Sprintf("the role %s may not do this: it needs %s", a.Role, Responder)
	case len(approvers) == 0 && a.Role == "":
		return "no policy names approvers, so it takes a responder: give your entry of auth.api.tokens_file your slack_user and the role responder"
	case len(approvers) == 0:
		return ""
	case a.Unverified:
		return "it has approvers (" + list + "), each with a token of their own, and no token vouches for this name"
	case !named(a.ID) && !named(a.Alias):
		return "not among the approvers of this action (remediate.policies[].approvers): " + list
	}
	return ""
}

// planShown is how many characters of a plan's hash people are shown, and type.
const planShown = 8

// ShortPlan returns the beginning of a plan's hash that people are shown, and type to approve it.
func ShortPlan(hash string) string { return hash[:min(len(hash), planShown)] }

// IsPlan reports whether a hash is that of the action's plan: the whole hash, or at least as much
// of it as people are shown.
func (a *Action) IsPlan(hash string) bool {
	return hash != "" && (hash == a.PlanHash || len(hash) >= planShown && strings.HasPrefix(a.PlanHash, hash))
}
