package prometheus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// beginning is how much of a past that is shorter than an hour is what was normal: the first
// minutes, over which rates are, where the trouble was not there yet.
const beginning = 5 * time.Minute

// before is the moment that is compared with: an hour before the onset, or as near to it as the
// past goes back.
func (g *gathering) before() time.Time {
	if g.brief() {
		return g.scope.began.Add(beginning)
	}
	return g.query.Onset.Add(-time.Hour)
}

// brief says whether the past is shorter than an hour, and long enough to be one.
func (g *gathering) brief() bool {
	past, onset := g.scope.began.Add(beginning), g.query.Onset
	return past.After(onset.Add(-time.Hour)) && !past.After(onset.Add(-enrich.Troubled))
}

// scraped is an engine with its first sample of the time that is looked at.
type scraped struct {
	pod, model string
	first      time.Time
}

// firstScrapes is the query of when engines were first scraped. It looks so far back that what was
// there an hour before the onset is known to have been, at the usual intervals.
func firstScrapes(b builder, q enrich.Query) string {
	look := fmt.Sprintf("[%ds:1m]", int((time.Hour + beginning + 2*time.Minute).Seconds()))
	if ago := int(q.Now.Sub(q.Onset).Seconds()); ago > 0 { // Prometheus 2 takes no offset of nothing
		look += fmt.Sprintf(" offset %ds", ago)
	}
	return "min by (pod, model_name) (min_over_time(timestamp(" + b.sel(b.src.Metric, b.src.Match) + ")" + look + "))"
}

// since is when the first was scraped of what the scope is about: of the pool's own pods where
// their names tell, else of its model, else of all.
func since(seen []scraped, scope state.Scope) time.Time {
	own := func(s scraped) bool {
		pool := rules.PoolOf(s.pod)
		return scope.Pool != "" && (pool == scope.Pool || pool == "" && strings.HasPrefix(s.pod, scope.Pool+"-"))
	}
	model := func(s scraped) bool { return scope.Model != "" && s.model == scope.Model }
	all := func(scraped) bool { return true }
	for _, of := range []func(scraped) bool{own, model, all} {
		var began time.Time
		for _, s := range seen {
			if of(s) && (began.IsZero() || s.first.Before(began)) {
				began = s.first
			}
		}
		if !began.IsZero() {
			return began
		}
	}
	return time.Time{}
}

// succeed compares a pool's workers with those whose places they took, where none of them was there
// before: a rollout makes new pods, and its past is the pool's. What is counted is shared by as
// many as there are now; of all else it is the mean. GPUs have no heirs.
func (g *gathering) succeed() {
	renewed := g.renewed()
	type kind struct{ pool, signal, text string }
	gone, heirs := map[kind]map[string]*sample{}, map[kind][]*sample{}
	for _, sm := range g.samples {
		pool := poolOf(sm.entity)
		if renewed[pool] == 0 || sm.entity.GPU != "" || !sm.member.signal.Compared() {
			continue
		}
		k := kind{pool, sm.member.signal.ID, sm.text}
		switch {
		case sm.now != nil && sm.base == nil:
			heirs[k] = append(heirs[k], sm)
		case sm.now == nil && sm.base != nil:
			if gone[k] == nil {
				gone[k] = map[string]*sample{}
			}
			if have := gone[k][sm.entity.Pod]; have == nil || sm.member.index < have.member.index {
				gone[k][sm.entity.Pod] = sm
			}
		}
	}
	for k, olds := range gone {
		var before []float64
		for _, sm := range olds {
			before = append(before, sm.base.Value(enrich.CombineOf(sm.member.signal, sm.member.source)))
		}
		slices.Sort(before) // a sum depends on the order
		var sum float64
		for _, v := range before {
			sum += v
		}
		for _, sm := range heirs[k] {
			share := len(before)
			if rules.Counted(sm.member.signal.Unit) {
				share = renewed[k.pool]
			}
			origin{}.add(&sm.base, sum/float64(share))
		}
	}
}

// renewed are the pools of which other pods ran before, and none of those that run now, with the
// number of these.
func (g *gathering) renewed() map[string]int {
	type times struct{ now, before bool }
	pods := map[string]map[string]times{}
	for _, sm := range g.samples {
		if pool := poolOf(sm.entity); pool != "" && sm.member.signal.ID == g.query.Running.ID {
			if pods[pool] == nil {
				pods[pool] = map[string]times{}
			}
			t := pods[pool][sm.entity.Pod]
			pods[pool][sm.entity.Pod] = times{t.now || sm.now != nil, t.before || sm.base != nil}
		}
	}
	out := map[string]int{}
	for pool, ofPool := range pods {
		now, gone, stayed := 0, 0, 0
		for _, t := range ofPool {
			switch {
			case t.now && t.before:
				stayed++
			case t.now:
				now++
			case t.before:
				gone++
			}
		}
		if stayed == 0 && gone > 0 && now > 0 {
			out[pool] = now
		}
	}
	return out
}

// poolOf is the pool that a pod's name tells; empty where it tells none.
func poolOf(e state.Entity) string {
	if pool := rules.PoolOf(e.Pod); pool != "" {
		return e.Namespace + "/" + pool
	}
	return ""
}
