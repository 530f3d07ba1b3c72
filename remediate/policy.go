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

// A Policy restricts first aid for the causes, actions and places that it names; an empty list names all. It can only tighten: of the
// general mode and limits and those of all policies that match, the strictest of each holds.
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

// Limits bound what may be written and how often. Zero takes the default.
type Limits struct {
	Floor            int           `yaml:"floor"`              // smallest max_num_seqs; default 8
	Ceiling          int           `yaml:"ceiling"`            // largest max_num_seqs; default 1024
	MaxFactor        float64       `yaml:"max_factor"`         // a change is at most by this factor; default 4
	EvidenceAge      time.Duration `yaml:"evidence_age"`       // default 2m
	Signals          int           `yaml:"signals"`            // independent signals that must still speak for the cause, one fewer where a person approves; default 2
	HumanEdit        time.Duration `yaml:"human_edit"`         // hands off for so long after a person's edit; default 15m
	Cooldown         time.Duration `yaml:"cooldown"`           // default 30m
	PerIncident      int           `yaml:"per_incident"`       // default 2
	PerTargetDay     int           `yaml:"per_target_day"`     // default 3
	EvictionsPerHour int           `yaml:"evictions_per_hour"` // default 3
	EvictionPercent  int           `yaml:"eviction_percent"`   // of the pool an hour, one at least; default 25
	RolloutEvery     time.Duration `yaml:"rollout_every"`      // default 6h
	ReadyPercent     int           `yaml:"ready_percent"`      // auto: must stay ready; default 80
	MaxLoad          float64       `yaml:"max_load"`           // auto: projected use of those that remain; default 0.85
	ApprovalTTL      time.Duration `yaml:"approval_ttl"`       // default 15m
}

var defaults = Limits{Floor: 8, Ceiling: 1024, MaxFactor: 4, EvidenceAge: 2 * time.Minute, Signals: 2, HumanEdit: 15 * time.Minute,
	Cooldown: 30 * time.Minute, PerIncident: 2, PerTargetDay: 3, EvictionsPerHour: 3, EvictionPercent: 25, RolloutEvery: 6 * time.Hour,
	ReadyPercent: 80, MaxLoad: 0.85, ApprovalTTL: 15 * time.Minute}

// A FreezeWindow is a time in which nothing is written: once, from Start to End, or every week on Days between From and To ("22:00",
// in Zone, which is UTC by default; To before From runs past midnight).
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
	r := rule{Limits: defaults, mode: c.Mode, because: "remediate.mode"}
	if r.mode == "" {
		r.mode = Suggest
	}
	match := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	r.Limits = first(c.Limits, defaults)
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

// first takes each limit from a, or from b where a has none.
func first(a, b Limits) Limits {
	return Limits{or(a.Floor, b.Floor), or(a.Ceiling, b.Ceiling), or(a.MaxFactor, b.MaxFactor), or(a.EvidenceAge, b.EvidenceAge),
		or(a.Signals, b.Signals), or(a.HumanEdit, b.HumanEdit), or(a.Cooldown, b.Cooldown), or(a.PerIncident, b.PerIncident),
		or(a.PerTargetDay, b.PerTargetDay), or(a.EvictionsPerHour, b.EvictionsPerHour), or(a.EvictionPercent, b.EvictionPercent),
		or(a.RolloutEvery, b.RolloutEvery), or(a.ReadyPercent, b.ReadyPercent), or(a.MaxLoad, b.MaxLoad), or(a.ApprovalTTL, b.ApprovalTTL)}
}

// strictest takes the stricter of each limit; b's zero limits say nothing.
func strictest(a, b Limits) Limits {
	b = first(b, a)
	return Limits{max(a.Floor, b.Floor), min(a.Ceiling, b.Ceiling), min(a.MaxFactor, b.MaxFactor), min(a.EvidenceAge, b.EvidenceAge),
		max(a.Signals, b.Signals), max(a.HumanEdit, b.HumanEdit), max(a.Cooldown, b.Cooldown), min(a.PerIncident, b.PerIncident),
		min(a.PerTargetDay, b.PerTargetDay), min(a.EvictionsPerHour, b.EvictionsPerHour), min(a.EvictionPercent, b.EvictionPercent),
		max(a.RolloutEvery, b.RolloutEvery), max(a.ReadyPercent, b.ReadyPercent), min(a.MaxLoad, b.MaxLoad), min(a.ApprovalTTL, b.ApprovalTTL)}
}

// Validate lists every problem of the policies and the mode.
func (c *Config) Validate() error {
	var all []error
	if c.Mode != "" && !slices.Contains(modes, c.Mode) {
		all = append(all, fmt.Errorf("remediate.mode: %q is not one of observe, suggest, approve, auto", c.Mode))
	}
	for i, p := range c.Policies {
		at := fmt.Sprintf("remediate.policies[%d] (%s)", i, p.Name)
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
