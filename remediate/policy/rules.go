package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
)

// Rules hold the operator's settings of first aid.
type Rules struct {
	Mode     Mode // empty: suggest
	Policies []Policy
	Limits   Limits
	// ManagedLabel is the namespace label, as key=value, that opts in to writes. Empty is
	// paramedic.dev/managed=true, and "-" asks for no label.
	ManagedLabel string
	// SelfNamespace is the bot's own namespace, in which it never writes.
	SelfNamespace string
	Timing        Timing
}

// A Rule holds the settings for one action in one place, after all policies.
type Rule struct {
	Limits
	Mode      Mode
	Approvers []string // nil: every responder; empty: the policies name no person in common
	Freeze    []FreezeWindow
	Because   string // which policy set the mode
}

// For returns the rule for an action against a cause on a target.
func (all *Rules) For(cause state.Cause, kind string, t state.Target) Rule {
	r := Rule{Limits: all.Limits.OrDefaults(), Mode: all.Mode, Because: "remediate.mode"}
	if r.Mode == "" {
		r.Mode = Suggest
	}
	match := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	for _, p := range all.Policies {
		if !match(p.Causes, string(cause)) || !match(p.Actions, kind) || !match(p.Clusters, t.Cluster) ||
			!match(p.Namespaces, t.Namespace) || !match(p.Pools, t.Pool) {
			continue
		}
		if p.Mode != "" && p.Mode.StricterThan(r.Mode) {
			r.Mode, r.Because = p.Mode, "policy "+p.Name
		}
		if len(p.Approvers) > 0 {
			r.Approvers = common(r.Approvers, p.Approvers)
		}
		r.Freeze = append(r.Freeze, p.Freeze...)
		r.Limits = strictest(r.Limits, p.Limits)
	}
	return r
}

// NoApprover reports whether the policies leave no person who may approve.
func (r Rule) NoApprover() bool { return r.Approvers != nil && len(r.Approvers) == 0 }

// common returns the approvers in both lists. It never returns nil, because an empty list allows no
// person.
func common(a, b []string) []string {
	if a == nil {
		return b
	}
	out := []string{}
	for _, v := range a {
		if slices.Contains(b, v) {
			out = append(out, v)
		}
	}
	return out
}

// Validate returns an error that lists every problem of the mode, the limits and the policies.
func (all *Rules) Validate() error {
	var wrong []error
	if all.Mode != "" && !slices.Contains(modes, all.Mode) {
		wrong = append(wrong, fmt.Errorf("remediate.mode: %q is not one of observe, suggest, approve, auto", all.Mode))
	}
	for _, w := range all.Limits.Wrong() {
		wrong = append(wrong, fmt.Errorf("remediate.limits.%s: %s", w.Key, w.Text))
	}
	general := all.Limits.OrDefaults()
	for i, p := range all.Policies {
		at := fmt.Sprintf("remediate.policies[%d] (%s)", i, p.Name)
		for _, w := range p.Limits.WrongIn(general) {
			wrong = append(wrong, fmt.Errorf("%s: limits.%s: %s", at, w.Key, w.Text))
		}
		if p.Mode != "" && !slices.Contains(modes, p.Mode) {
			wrong = append(wrong, fmt.Errorf("%s: mode %q is not one of observe, suggest, approve, auto", at, p.Mode))
		}
		for _, k := range p.Actions {
			if !slices.Contains(playbooks.Actions(), k) {
				wrong = append(wrong, fmt.Errorf("%s: actions: %q is not one of %s", at, k,
					strings.Join(playbooks.Actions(), ", ")))
			}
		}
		for _, w := range p.Freeze {
			if _, _, err := w.Covers(time.Time{}); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: freeze %s: %w", at, w.Name, err))
			}
		}
	}
	return errors.Join(wrong...)
}

// Horizon returns how far back the guards look. If runs were forgotten sooner, the guards would
// count too few.
func (all *Rules) Horizon() time.Duration {
	t := all.Timing.OrDefaults()
	// A run may outlast its incident by this, and its cooldown begins then.
	after := t.Drain + t.Blocked + 2*t.Rollout + t.Settle + t.Window
	limits := all.Limits.OrDefaults()
	longest := max(24*time.Hour, limits.RolloutEvery, limits.Cooldown+after) // per_target_day counts a day
	for _, p := range all.Policies {
		longest = max(longest, p.Limits.RolloutEvery, p.Limits.Cooldown+after)
	}
	return longest
}

// ApprovedUntil returns when an approval runs out. That is after the plan's own time, or after the
// end of a hold, by ApprovalTTL. It lasts at least for the window that is read before the write.
// Otherwise a short approval_expires would leave no time to carry an approval out.
func (all *Rules) ApprovedUntil(a *state.Action, r Rule) time.Time {
	end := a.ExpiresAt
	if held, err := time.Parse(time.RFC3339Nano, a.Journal[state.HeldUntil]); err == nil && held.After(end) {
		end = held
	}
	t := all.Timing.OrDefaults()
	return end.Add(max(r.ApprovalTTL, time.Duration(t.Readings()+1)*t.Interval))
}

// OptedIn reports whether first aid may write in a namespace with these labels. In mode auto the
// namespace must carry the label. In mode approve a named person approves every write, and a Role
// in the namespace allows it, so only another value of the label forbids it.
func (all *Rules) OptedIn(labels map[string]string, mode Mode) bool {
	if all.ManagedLabel == "-" {
		return true
	}
	key, want, _ := strings.Cut(all.ManagedLabel, "=")
	have, ok := labels[key]
	if !ok {
		return mode != Auto
	}
	return want == "" || have == want
}
