package prometheus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/promql"
	"paramedic/rules/topology"
	"paramedic/state"
)

// beginning is the part of a past shorter than an hour that serves as baseline: its first minutes,
// the window of most rates.
const beginning = 5 * time.Minute

// before returns the time of the baseline: an hour before the onset, or the end of the beginning of
// a shorter past.
func (g *gathering) before() time.Time {
	if g.hasShortPast() {
		return g.scope.began.Add(beginning)
	}
	return g.query.Onset.Add(-time.Hour)
}

// hasShortPast reports whether the past is shorter than an hour, but long enough for a baseline.
func (g *gathering) hasShortPast() bool {
	past, onset := g.scope.began.Add(beginning), g.query.Onset
	return past.After(onset.Add(-time.Hour)) && !past.After(onset.Add(-enrich.Troubled))
}

// A firstSample is an engine with the time of its first sample in the searched range.
type firstSample struct {
	engineName
	pod, model string
	first      time.Time
}

// firstScrapes returns the queries for the first scrape of each engine. Their range is long enough
// to recognize engines that existed an hour before the onset, at the usual scrape intervals.
func firstScrapes(q enrich.Query, in []string) []string {
	subquery := fmt.Sprintf("[%ds:1m]", int((time.Hour + beginning + 2*time.Minute).Seconds()))
	if ago := int(q.Now.Sub(q.Onset).Seconds()); ago > 0 { // Prometheus 2 refuses an offset of zero
		subquery += fmt.Sprintf(" offset %ds", ago)
	}
	var out []string
	for _, src := range q.Running.Sources {
		if !slices.Contains(engines, src.Engine) {
			continue
		}
		for _, s := range promql.SpellingsOf(src.Metric) {
			spelled := src.Spelled(s.Of)
			b := builder{sig: q.Running, src: spelled, matchers: in}
			first := "timestamp(" + b.sel(spelled.Metric, spelled.Match) + ")" + subquery
			out = append(out, marked("min by (pod, model_name) (min_over_time("+first+"))", firstMark+spelled.Metric))
		}
	}
	return out
}

// preferred returns the samples without those of engines that also have a preferred name. Their
// values are read by that, so their past begins with it.
func preferred(all []firstSample) []firstSample {
	return slices.DeleteFunc(slices.Clone(all), func(s firstSample) bool {
		return slices.ContainsFunc(all, func(o firstSample) bool {
			return o.engine == s.engine && o.pod == s.pod && o.model == s.model && o.spelling < s.spelling
		})
	})
}

// firstScrape returns the time of the first scrape of the scope's engines: of the pool's own pods
// if their names show it, else of its model, else of all.
func firstScrape(seen []firstSample, scope state.Scope) time.Time {
	own := func(s firstSample) bool {
		pool := topology.PoolOf(s.pod)
		return scope.Pool != "" && (pool == scope.Pool || pool == "" && strings.HasPrefix(s.pod, scope.Pool+"-"))
	}
	model := func(s firstSample) bool { return scope.Model != "" && s.model == scope.Model }
	all := func(firstSample) bool { return true }
	for _, of := range []func(firstSample) bool{own, model, all} {
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

// inheritBaselines gives replaced workers' values to their successors as baselines, if none of the
// pool's current pods existed before: a rollout creates new pods. A count is divided by the number
// of current pods; other values are averaged. GPUs have no successors.
func (g *gathering) inheritBaselines() {
	replaced := g.replacedPools()
	type kind struct{ pool, signal, text string }
	gone, successors := map[kind]map[string]*sample{}, map[kind][]*sample{}
	for _, sm := range g.samples {
		pool := enrich.PodsPool(sm.entity)
		if replaced[pool] == 0 || sm.entity.GPU != "" || !sm.member.signal.Compared() {
			continue
		}
		k := kind{pool, sm.member.signal.ID, sm.text}
		switch {
		case sm.now != nil && sm.base == nil:
			successors[k] = append(successors[k], sm)
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
		for _, sm := range successors[k] {
			origin{}.add(&sm.base, enrich.Inherited(sm.member.signal, before, replaced[k.pool]))
		}
	}
}

// replacedPools returns the pools whose current pods all replaced others, with the number of
// current pods.
func (g *gathering) replacedPools() map[string]int {
	type times struct{ now, before bool }
	pods := map[string]map[string]times{}
	for _, sm := range g.samples {
		if pool := enrich.PodsPool(sm.entity); pool != "" && sm.member.signal.ID == g.query.Running.ID {
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
