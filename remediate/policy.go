package remediate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A Mode says how much is trusted to the bot.
type Mode string

// The modes, strictest first.
const (
	Observe Mode = "observe" // record what it would do
	Suggest Mode = "suggest" // also say it
	Approve Mode = "approve" // do it when a named person confirms
	Auto    Mode = "auto"    // do it
)

var modes = []Mode{Observe, Suggest, Approve, Auto}

// Writes says whether the mode can lead to a write.
func (m Mode) Writes() bool { return m == Approve || m == Auto }

// A Policy restricts first aid for the causes, actions and places that it names; an empty list
// names all. It can only tighten: of the general mode and limits and those of all policies that
// match, the strictest of each holds.
type Policy struct {
	Name       string         `yaml:"name"`
	Causes     []string       `yaml:"causes"`
	Actions    []string       `yaml:"actions"`
	Clusters   []string       `yaml:"clusters"`
	Namespaces []string       `yaml:"namespaces"`
	Pools      []string       `yaml:"pools"`
	Mode       Mode           `yaml:"mode"`
	Approvers  []string       `yaml:"approvers"` // IDs of Slack users or names of API tokens; either stands for the person
	Limits     Limits         `yaml:"limits"`
	Freeze     []FreezeWindow `yaml:"freeze"`
}

// A FreezeWindow is a time in which nothing is written: once, from Start to End, or every week on
// Days between From and To ("22:00", in Zone, which is UTC by default; To before From runs past
// midnight).
type FreezeWindow struct {
	Name  string    `yaml:"name"`
	Start time.Time `yaml:"start"`
	End   time.Time `yaml:"end"`
	Days  []string  `yaml:"days"` // mon, tue …; empty: every day
	From  string    `yaml:"from"`
	To    string    `yaml:"to"`
	Zone  string    `yaml:"zone"`
}

// rule is what holds for one action in one place, after all policies.
type rule struct {
	Limits
	mode      Mode
	approvers []string // nil: every responder; empty: no policy's approver is also the others'
	freeze    []FreezeWindow
	because   string // which policy set the mode
}

func (c *Config) ruleFor(cause state.Cause, kind string, t state.Target) rule {
	r := rule{Limits: c.Limits.OrDefaults(), mode: c.Mode, because: "remediate.mode"}
	if r.mode == "" {
		r.mode = Suggest
	}
	match := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	for _, p := range c.Policies {
		if !match(p.Causes, string(cause)) || !match(p.Actions, kind) || !match(p.Clusters, t.Cluster) ||
			!match(p.Namespaces, t.Namespace) || !match(p.Pools, t.Pool) {
			continue
		}
		if p.Mode != "" && slices.Index(modes, p.Mode) < slices.Index(modes, r.mode) {
			r.mode, r.because = p.Mode, "policy "+p.Name
		}
		if len(p.Approvers) > 0 {
			r.approvers = common(r.approvers, p.Approvers)
		}
		r.freeze = append(r.freeze, p.Freeze...)
		r.Limits = strictest(r.Limits, p.Limits)
	}
	return r
}

// noApprover reports whether the policies leave no person who may approve.
func (r rule) noApprover() bool { return r.approvers != nil && len(r.approvers) == 0 }

// common returns the approvers whom both name; it is never nil, for an empty list names nobody.
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

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Validate lists every problem of the policies and the mode.
func (c *Config) Validate() error {
	var all []error
	if c.Mode != "" && !slices.Contains(modes, c.Mode) {
		all = append(all, fmt.Errorf("remediate.mode: %q is not one of observe, suggest, approve, auto", c.Mode))
	}
	for _, w := range c.Limits.Wrong() {
		all = append(all, fmt.Errorf("remediate.limits.%s: %s", w.Key, w.Text))
	}
	general := c.Limits.OrDefaults()
	for i, p := range c.Policies {
		at := fmt.Sprintf("remediate.policies[%d] (%s)", i, p.Name)
		for _, w := range p.Limits.WrongIn(general) {
			all = append(all, fmt.Errorf("%s: limits.%s: %s", at, w.Key, w.Text))
		}
		if p.Mode != "" && !slices.Contains(modes, p.Mode) {
			all = append(all, fmt.Errorf("%s: mode %q is not one of observe, suggest, approve, auto", at, p.Mode))
		}
		for _, k := range p.Actions {
			if _, ok := actionOf(k); !ok {
				all = append(all, fmt.Errorf("%s: there is no action %q", at, k))
			}
		}
		for _, w := range p.Freeze {
			if _, _, err := w.in(time.Time{}); err != nil {
				all = append(all, fmt.Errorf("%s: freeze %s: %w", at, w.Name, err))
			}
		}
	}
	return errors.Join(all...)
}

// in says whether the window holds at a time, and when it ends.
func (w FreezeWindow) in(now time.Time) (bool, time.Time, error) {
	if !w.Start.IsZero() || !w.End.IsZero() {
		if !w.End.After(w.Start) {
			return false, time.Time{}, errors.New("end is not after start")
		}
		return !now.Before(w.Start) && now.Before(w.End), w.End, nil
	}
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("zone %q: %w", w.Zone, err)
	}
	from, err1 := time.Parse("15:04", w.From)
	to, err2 := time.Parse("15:04", w.To)
	if err := errors.Join(err1, err2); err != nil {
		return false, time.Time{}, fmt.Errorf("from and to are times such as 22:00: %w", err)
	}
	for _, d := range w.Days {
		if !slices.Contains(days, strings.ToLower(d)) {
			return false, time.Time{}, fmt.Errorf("day %q is not one of %s", d, strings.Join(days, ", "))
		}
	}
	now = now.In(zone)
	for back := range 2 { // a window that began yesterday may reach into today
		day := now.AddDate(0, 0, -back)
		if len(w.Days) > 0 && !slices.ContainsFunc(w.Days, func(d string) bool { return strings.EqualFold(d, days[day.Weekday()]) }) {
			continue
		}
		start := time.Date(day.Year(), day.Month(), day.Day(), from.Hour(), from.Minute(), 0, 0, zone)
		end := time.Date(day.Year(), day.Month(), day.Day(), to.Hour(), to.Minute(), 0, 0, zone)
		if !end.After(start) {
			end = end.AddDate(0, 0, 1)
		}
		if !now.Before(start) && now.Before(end) {
			return true, end.UTC(), nil
		}
	}
	return false, time.Time{}, nil
}

var days = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
