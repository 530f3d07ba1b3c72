package prometheus

import (
	"time"

	"paramedic/rules/enrich"
)

// beginning is the part of a past shorter than an hour that serves as baseline: its first minutes,
// the window of most rates.
const beginning = 5 * time.Minute

// before returns the time of the baseline: an hour before the onset, or the end of the beginning of
// a shorter past.
func (g *gathering) before() time.Time {
	if g.hasShortPast() {
		return g.began.Add(beginning)
	}
	return g.query.Onset.Add(-time.Hour)
}

// hasShortPast reports whether the past is shorter than an hour, but long enough for a baseline.
func (g *gathering) hasShortPast() bool {
	past, onset := g.began.Add(beginning), g.query.Onset
	return past.After(onset.Add(-time.Hour)) && !past.After(onset.Add(-enrich.Troubled))
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
		if replaced[pool] == 0 || sm.entity.GPU != "" || !sm.member.Signal.Compared() {
			continue
		}
		k := kind{pool, sm.member.Signal.ID, sm.text}
		switch {
		case sm.now != nil && sm.base == nil:
			successors[k] = append(successors[k], sm)
		case sm.now == nil && sm.base != nil:
			if gone[k] == nil {
				gone[k] = map[string]*sample{}
			}
			if have := gone[k][sm.entity.Pod]; have == nil || sm.member.Index < have.member.Index {
				gone[k][sm.entity.Pod] = sm
			}
		}
	}
	for k, olds := range gone {
		var before []float64
		for _, sm := range olds {
			before = append(before, sm.base.Value(enrich.CombineOf(sm.member.Signal, sm.member.Source)))
		}
		for _, sm := range successors[k] {
			origin{}.add(&sm.base, enrich.Inherited(sm.member.Signal, before, replaced[k.pool]))
		}
	}
}

// replacedPools returns the pools whose current pods all replaced others, with the number of
// current pods.
func (g *gathering) replacedPools() map[string]int {
	type times struct{ now, before bool }
	pods := map[string]map[string]times{}
	for _, sm := range g.samples {
		if pool := enrich.PodsPool(sm.entity); pool != "" && sm.member.Signal.ID == g.query.Running.ID {
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
