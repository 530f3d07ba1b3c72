package prometheus

import (
	"slices"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// Of a pool whose past is shorter than an hour the beginning is what was normal: the first minutes, over which rates are, where they are so
// much older than the onset that the trouble, which comes before its first alert, was most likely not there yet.
const (
	beginning = 5 * time.Minute
	headStart = 2 * time.Minute
)

// before is the moment that is compared with: an hour before the onset, or as near to it as the past goes back.
func (g *gathering) before() time.Time {
	if g.brief() {
		return g.scope.began.Add(beginning)
	}
	return g.query.Onset.Add(-time.Hour)
}

// brief says whether the past is shorter than an hour, and long enough to be one.
func (g *gathering) brief() bool {
	past, onset := g.scope.began.Add(beginning), g.query.Onset
	return past.After(onset.Add(-time.Hour)) && !past.After(onset.Add(-headStart))
}

// lookBack is how far before the onset the first scrape is looked for: so far that what was there an hour before it, at the usual intervals, is
// known to have been.
const lookBack = time.Hour + beginning + 2*time.Minute

// shortPast says so where the past is shorter than an hour.
func (g *gathering) shortPast() (state.Missing, bool) {
	began := g.scope.began
	return state.Missing{Signal: string(baseline), Reason: "scraped since " + began.Format("15:04:05") + " only, less than an hour before the onset: what was seen first stands for it"},
		g.brief() && began.After(g.query.Onset.Add(-time.Hour))
}

// succeed compares a pool's workers with those whose places they took, where none of them was there before: a rollout makes new pods, and its
// past is the pool's.
func (g *gathering) succeed() {
	if g.scope.pods == "" {
		return
	}
	type kind struct{ member, text string }
	heirs, gone := map[kind][]*sample{}, map[kind][]*sample{}
	stayed := map[kind]bool{}
	for _, sm := range g.samples {
		k := kind{sm.member.id, sm.text}
		switch {
		case sm.entity.Pod == "" || !sm.member.signal.Compared():
		case sm.now == nil && sm.base != nil:
			gone[k] = append(gone[k], sm)
		case sm.now != nil && sm.base == nil:
			heirs[k] = append(heirs[k], sm)
		case sm.now != nil:
			stayed[k] = true
		}
	}
	for k, olds := range gone {
		if stayed[k] {
			continue
		}
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
			origin{}.add(&sm.base, sum/float64(len(before)))
		}
	}
}
