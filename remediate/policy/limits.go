package policy

import (
	"fmt"
	"strconv"
	"time"

	"paramedic/state"
)

// Limits bound what may be written, and how often. Zero takes the default. AllLimits has the
// defaults and the hard bounds.
type Limits struct {
	Floor            int           // smallest max_num_seqs
	Ceiling          int           // largest max_num_seqs
	MaxFactor        float64       // largest factor of one change
	EvidenceAge      time.Duration // older samples are ignored
	Signals          int           // independent signals that support the cause; one fewer if a person approves
	HumanEdit        time.Duration // pause after a person's edit
	Cooldown         time.Duration // pause between two actions on a pool
	PerIncident      int           // actions in one incident
	PerTargetDay     int           // actions on a pool within a day
	EvictionsPerHour int           // of a pool
	EvictionPercent  int           // of the pool in an hour, at least one
	RolloutEvery     time.Duration // time for one rollout of a pool
	ReadyPercent     int           // auto: workers that must stay ready
	MaxLoad          float64       // auto: projected use of the remaining workers
	ApprovalTTL      time.Duration // longest wait for approval
}

// A Limit is one field of Limits, with its bounds. Durations are in nanoseconds.
type Limit struct {
	Key         string // in remediate.limits and remediate.policies[].limits
	Default     float64
	Least, Most float64 // hard bounds of every configuration
	more        bool    // a larger value is stricter
	of          func(*Limits) any
}

// AllLimits lists the limits in the order of the fields of Limits.
var AllLimits = []Limit{
	{"floor", 8, 8, 1024, true, func(l *Limits) any { return &l.Floor }},
	{"ceiling", 1024, 8, 8192, false, func(l *Limits) any { return &l.Ceiling }},
	{"max_factor", 4, 1.25, 8, false, func(l *Limits) any { return &l.MaxFactor }},
	{"evidence_age", ns(2 * time.Minute), ns(30 * time.Second), ns(10 * time.Minute), false, func(l *Limits) any { return &l.EvidenceAge }},
	{"signals", 2, 2, 6, true, func(l *Limits) any { return &l.Signals }},
	{"human_edit", ns(15 * time.Minute), ns(5 * time.Minute), ns(24 * time.Hour), true, func(l *Limits) any { return &l.HumanEdit }},
	{"cooldown", ns(30 * time.Minute), ns(5 * time.Minute), ns(24 * time.Hour), true, func(l *Limits) any { return &l.Cooldown }},
	{"per_incident", 2, 1, 6, false, func(l *Limits) any { return &l.PerIncident }},
	{"per_target_day", 3, 1, 12, false, func(l *Limits) any { return &l.PerTargetDay }},
	{"evictions_per_hour", 3, 1, 10, false, func(l *Limits) any { return &l.EvictionsPerHour }},
	{"eviction_percent", 25, 1, 50, false, func(l *Limits) any { return &l.EvictionPercent }},
	{"rollout_window", ns(6 * time.Hour), ns(time.Hour), ns(168 * time.Hour), true, func(l *Limits) any { return &l.RolloutEvery }},
	{"ready_percent", 80, 50, 100, true, func(l *Limits) any { return &l.ReadyPercent }},
	{"max_load", 0.85, 0.1, 0.95, false, func(l *Limits) any { return &l.MaxLoad }},
	{"approval_expires", ns(15 * time.Minute), ns(time.Minute), ns(4 * time.Hour), false, func(l *Limits) any { return &l.ApprovalTTL }},
}

func ns(d time.Duration) float64 { return float64(d) }

// Get returns the limit's value in l, or zero if it is not set.
func (d Limit) Get(l Limits) float64 {
	switch v := d.of(&l).(type) {
	case *int:
		return float64(*v)
	case *time.Duration:
		return float64(*v)
	case *float64:
		return *v
	}
	return 0
}

func (d Limit) set(l *Limits, to float64) {
	switch v := d.of(l).(type) {
	case *int:
		*v = int(to)
	case *time.Duration:
		*v = time.Duration(to)
	case *float64:
		*v = to
	}
}

// Text returns a value of the limit in the form of the configuration file.
func (d Limit) Text(v float64) string {
	if _, ok := d.of(&Limits{}).(*time.Duration); ok {
		return state.FormatDuration(time.Duration(v))
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// looser reports whether a value allows more than another.
func (d Limit) looser(v, than float64) bool {
	if d.more {
		return v < than
	}
	return v > than
}

// OrDefaults returns the limits, with the default for each that is not set.
func (l Limits) OrDefaults() Limits {
	for _, d := range AllLimits {
		if d.Get(l) == 0 {
			d.set(&l, d.Default)
		}
	}
	return l
}

// strictest returns the stricter of each limit. A zero limit of b is ignored.
func strictest(a, b Limits) Limits {
	for _, d := range AllLimits {
		if v := d.Get(b); v != 0 && d.looser(d.Get(a), v) {
			d.set(&a, v)
		}
	}
	return a
}

// A LimitProblem is a limit with a value that is refused, and why.
type LimitProblem struct{ Key, Text string }

// OutOfBounds returns why a value is beyond the hard bounds, or "".
func (d Limit) OutOfBounds(v float64) string {
	if v >= d.Least && v <= d.Most { // NaN is neither
		return ""
	}
	return fmt.Sprintf("must be from %s to %s, and is %s", d.Text(d.Least), d.Text(d.Most), d.Text(v))
}

// Wrong lists the limits that are beyond their hard bounds or contradict each other.
func (l Limits) Wrong() []LimitProblem {
	var out []LimitProblem
	for _, d := range AllLimits {
		if v := d.Get(l); v != 0 {
			if text := d.OutOfBounds(v); text != "" {
				out = append(out, LimitProblem{d.Key, text})
			}
		}
	}
	if all := l.OrDefaults(); len(out) == 0 && all.Floor > all.Ceiling {
		out = append(out, LimitProblem{"floor",
			fmt.Sprintf("%d is above the ceiling of %d, so no value is allowed: lower floor or raise ceiling",
				all.Floor, all.Ceiling)})
	}
	return out
}

// WrongIn lists the problems of a policy's limits, given the general ones. A policy only tightens,
// so a looser limit would have no effect.
func (l Limits) WrongIn(general Limits) []LimitProblem {
	var out []LimitProblem
	for _, d := range AllLimits {
		v, most := d.Get(l), d.Get(general)
		switch {
		case v == 0:
		case d.OutOfBounds(v) != "":
			out = append(out, LimitProblem{d.Key, d.OutOfBounds(v)})
		case d.looser(v, most):
			out = append(out, LimitProblem{d.Key,
				fmt.Sprintf("%s has no effect, because a policy only tightens and remediate.limits.%[3]s is %[2]s: "+
					"set that to %[1]s, or remove this",
					d.Text(v), d.Text(most), d.Key)})
		}
	}
	if all := strictest(general, l); len(out) == 0 && all.Floor > all.Ceiling && general.Floor <= general.Ceiling {
		out = append(out, LimitProblem{"floor",
			fmt.Sprintf("with this policy the floor of %d is above the ceiling of %d, so no value is allowed: "+
				"lower floor or raise ceiling", all.Floor,
				all.Ceiling)})
	}
	return out
}
