package enrich

import (
	"slices"
	"time"

	"paramedic/state"
)

// A trouble is a signal that shows that a pool was already in trouble before the hour that is its
// usual baseline.
type trouble struct {
	signal string
	// felt is the least value of an hour ago that users feel. Zero means a cause of trouble, such
	// as demand, which may be unfelt at first.
	felt float64
	// factor is the least factor from a day ago to now.
	factor float64
	falls  bool // less of it is worse; below 0.2 there was nothing to lose
	fails  bool // users feel it whatever was usual, and a tenth of the requests is a fault
}

// The factors are those from which the catalogue counts a change of the signal, and the felt values
// lie below the thresholds of common alert rules. None of them is fitted to data.
var troubles = []trouble{
	{signal: "requests_waiting", felt: 5, factor: 3}, {signal: "ttft_p95", felt: 0.5, factor: 2},
	{signal: "preemption_rate", felt: 0.05, factor: 3}, {signal: "error_rate", felt: 0.02, factor: 3, fails: true},
	{signal: "gateway_error_ratio", felt: 0.02, factor: 3, fails: true},
	{signal: "gateway_upstream_error_ratio", felt: 0.02, factor: 3, fails: true},
	{signal: "arrival_rate", factor: 2}, {signal: "prompt_length_mean", factor: 2},
	{signal: "output_length_mean", factor: 2}, {signal: "prefix_hit_ratio", factor: 2, falls: true},
	{signal: "abort_rate", felt: 0.05, factor: 3}, {signal: "itl_p95", felt: 0.1, factor: 2},
	{signal: "refusal_ratio", felt: 0.02, factor: 2}, {signal: "empty_ratio", felt: 0.01, factor: 2},
}

// ofTheHour are signals that show a trouble that fills the hour before the onset, besides troubles.
// A batch that grew is not felt by itself.
var ofTheHour = append([]trouble{{signal: "requests_running", felt: 20, factor: 4}}, troubles...)

// ramped is the least factor from a day ago to the hour before the onset at which the change had
// begun by then.
const ramped = 1.25

// The moments of a signal in a pool, as the mean over its entities that have all of them.
type moments struct{ now, nearest, hour, day, week, n, weeks float64 }

// olderThan returns the note that baselines are of an earlier moment.
func olderThan(moment string) state.Missing {
	return state.Missing{Signal: "baseline", Reason: "the trouble began more than an hour before the first alert; " +
		"values are compared with " + moment}
}

// compareWithYesterday makes the values of a day ago the baselines of pools that were already in
// trouble an hour before the onset. A trouble would otherwise be its own baseline. All baselines of
// such a pool are then of one moment: a signal that is not read a day ago has none. What a week ago
// was the same is usual on that weekday. If a pool has no value of a day ago at all, those of some
// hours ago take their place. If the trouble began within that hour and filled most of it, the
// baselines are those of an hour before the onset.
func compareWithYesterday(ev *state.Evidence, onset time.Time) {
	old, recent, elder := map[poolName]bool{}, map[poolName]bool{}, elderOf(ev.Samples)
	for pool, signals := range momentsOf(ev.Samples, elder) {
		old[pool] = slices.ContainsFunc(troubles, func(t trouble) bool { return t.isOld(signals[t.signal]) })
		recent[pool] = slices.ContainsFunc(ofTheHour, func(t trouble) bool { return t.fillsTheHour(signals[t.signal]) })
	}
	ev.Old = longTroubled(ev.Samples, old, onset)
	moved, hours := false, false
	for i := range ev.Samples {
		s := &ev.Samples[i]
		if s.Entity.GPU != "" || !slices.Contains(ofTraffic, s.Unit) {
			continue
		}
		if !old[poolOf(s.Entity)] {
			if recent[poolOf(s.Entity)] && s.HourAgo != nil {
				s.Baseline, s.HourAgo = s.HourAgo, nil
			}
			continue
		}
		s.Baseline, s.HourAgo, moved = elder(s), nil, true
		hours = hours || s.DayAgo == nil && s.Baseline != nil
	}
	switch {
	case hours:
		ev.Missing = append(ev.Missing, olderThan("some hours ago"))
	case moved:
		ev.Missing = append(ev.Missing, olderThan("a day ago"))
	}
}

// longTroubled returns the old pools, those with a container in a long crash loop, those that
// failed requests an hour before the onset, and those whose charts show that users felt the trouble
// for all of the half hour before it.
func longTroubled(samples []state.Sample, old map[poolName]bool, onset time.Time) []state.Entity {
	all := map[poolName]bool{}
	for i := range samples {
		s := &samples[i]
		at := slices.IndexFunc(troubles, func(t trouble) bool { return t.signal == s.Signal })
		long := loops(s) || at >= 0 && (troubles[at].longFelt(s, onset) || troubles[at].failed(s))
		if pool := poolOf(s.Entity); pool.known() && (old[pool] || long) {
			all[pool] = true
		}
	}
	var out []state.Entity
	for pool := range all {
		out = append(out, state.Entity{Namespace: pool.namespace, Pool: pool.pool, Model: pool.model})
	}
	slices.SortFunc(out, CompareEntities)
	return out
}

// loops reports whether a container has been in a crash loop for half an hour. Kubernetes waits up
// to five minutes between its starts, so six of them take that long.
func loops(s *state.Sample) bool { return s.Signal == "pod_restarts" && s.Value >= 6 }

// longFelt reports whether users felt the trouble at every point of the half hour before the onset.
func (t trouble) longFelt(s *state.Sample, onset time.Time) bool {
	before, least := hourBefore(s), t.felt
	switch {
	case t.felt == 0, before == nil && !t.fails:
		return false
	case before != nil: // new workers have no past
		least = max(least, t.factor**before)
	}
	since, points := onset.Add(-30*time.Minute), 0
	for _, p := range usual(s.Series, onset) {
		if p.At.Before(since) {
			continue
		}
		if p.Value < least {
			return false
		}
		points++
	}
	return points >= usualPoints
}

// failing is the share of failed requests that no pool has while it is in order.
const failing = 0.1

// failed reports whether requests failed an hour before the onset as they do now. New workers may
// have failed since they started, and have no value of a day ago.
func (t trouble) failed(s *state.Sample) bool {
	before := hourBefore(s)
	return t.fails && before != nil && *before >= failing && s.Value >= failing
}

// hourBefore returns the value an hour before the onset, or nil.
func hourBefore(s *state.Sample) *float64 {
	if s.HourAgo != nil {
		return s.HourAgo
	}
	return s.Baseline
}

// elderOf returns a function that gives the value of a sample a day ago, or that of some hours ago
// if no sample of its pool has a value of a day ago.
func elderOf(samples []state.Sample) func(*state.Sample) *float64 {
	days := map[poolName]bool{}
	for i := range samples {
		days[poolOf(samples[i].Entity)] = days[poolOf(samples[i].Entity)] || samples[i].DayAgo != nil
	}
	return func(s *state.Sample) *float64 {
		if days[poolOf(s.Entity)] {
			return s.DayAgo
		}
		return s.Earlier
	}
}

// ofTraffic are the units of signals that follow the traffic and its lengths, and of the workers
// and the cache that carry it.
var ofTraffic = append([]string{"ratio", "tokens", "blocks", "pods"}, swinging...)

// A poolName names a pool, or the model of workers whose pool is unknown.
type poolName struct{ namespace, pool, model string }

func (p poolName) known() bool { return p.pool != "" || p.model != "" }

func poolOf(e state.Entity) poolName {
	if e.Pool != "" {
		return poolName{namespace: e.Namespace, pool: e.Pool}
	}
	return poolName{namespace: e.Namespace, model: e.Model}
}

// momentsOf returns the moments of each pool's signals.
func momentsOf(samples []state.Sample, elder func(*state.Sample) *float64) map[poolName]map[string]moments {
	out := map[poolName]map[string]moments{}
	for i := range samples {
		s := &samples[i]
		old := elder(s)
		// Within some hours demand changes by itself, so only what users feel shows a trouble.
		if !poolOf(s.Entity).known() || s.Baseline == nil || old == nil || s.DayAgo == nil && !isFelt(s.Signal) {
			continue
		}
		pool, hour := poolOf(s.Entity), *hourBefore(s)
		if out[pool] == nil {
			out[pool] = map[string]moments{}
		}
		m := out[pool][s.Signal]
		m.now, m.nearest, m.hour, m.day, m.n = m.now+s.Value, m.nearest+*s.Baseline, m.hour+hour, m.day+*old, m.n+1
		if s.WeekAgo != nil {
			m.week, m.weeks = m.week+*s.WeekAgo, m.weeks+1
		}
		out[pool][s.Signal] = m
	}
	return out
}

func isFelt(signal string) bool {
	return slices.ContainsFunc(ofTheHour, func(t trouble) bool { return t.signal == signal && t.felt > 0 })
}

// fillsTheHour reports whether users feel a trouble that began within the hour before the onset,
// and the baseline is of that trouble: it is worse than the value an hour before the onset, which
// is as good as that of a day ago.
func (t trouble) fillsTheHour(m moments) bool {
	return t.felt > 0 && m.n > 0 && m.nearest >= t.felt*m.n &&
		m.nearest > t.factor*m.hour && m.now > t.factor*m.hour && m.hour <= ramped*m.day
}

// isOld reports whether the trouble had begun an hour before the onset and goes on.
func (t trouble) isOld(m moments) bool {
	if m.n == 0 || m.hour < t.felt*m.n || t.falls && m.day < 0.2*m.n {
		return false
	}
	worse := func(a, b, factor float64) bool {
		if t.falls {
			a, b = b, a
		}
		return a > factor*b
	}
	begun := ramped
	if t.felt > 0 {
		begun = t.factor
	}
	usualThatWeekday := m.weeks == m.n && !worse(m.now, m.week, t.factor)
	// Without any value a day ago, a pool was idle or new, and yesterday is no measure of demand.
	known := t.felt > 0 || m.day > 0
	return known && worse(m.now, m.day, t.factor) && worse(m.hour, m.day, begun) && !usualThatWeekday
}
