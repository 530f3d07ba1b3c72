package engine

import (
	"cmp"
	"slices"

	"paramedic/rules/signals"
)

// whileIdle applies the source's function to the pages of the window on which all gauges of With
// are zero.
func (e *evaluation) whileIdle(targets []*target) values {
	courses := map[string][]at{}
	for _, t := range targets {
		for _, r := range t.history.between(e.to.Add(-e.source.Window), e.to) {
			then := *e
			then.to = r.at
			now := then.collect([]*target{t}, e.source.Metric, e.source.Match, e.signal.Combine, signals.FnLast)
			for _, gauge := range e.source.With {
				busy := then.collect([]*target{t}, gauge, e.source.Match, signals.CombineSum, signals.FnLast)
				for k := range now {
					if n, ok := busy[k]; !ok || n != 0 {
						delete(now, k)
					}
				}
			}
			for k, v := range now {
				courses[k] = append(courses[k], at{r.at.Sub(e.to).Seconds(), v})
			}
		}
	}
	current := e.collect(targets, e.source.Metric, e.source.Match, e.signal.Combine, signals.FnLast)
	out := values{}
	for k, course := range courses {
		if _, ok := current[k]; !ok && e.source.Fn == signals.FnRise {
			continue // hours without a worker are no sign of it
		}
		slices.SortFunc(course, func(a, b at) int { return cmp.Compare(a.seconds, b.seconds) })
		if v, ok := over(e.source.Fn, course, e.source.Window); ok {
			out[k] = v
		}
	}
	return out
}
