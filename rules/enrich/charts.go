package enrich

import (
	"cmp"
	"slices"

	"paramedic/state"
)

// chartedEntities limits the entities of a signal that keep their series. The evidence is stored,
// and a chart with more lines is unreadable.
const chartedEntities = 6

// keepSeries drops the series that no chart will show. It keeps the pool's series, then those of
// the scope's own pods, then those with the highest anomaly score.
func keepSeries(samples []state.Sample, scope state.Scope) {
	bySignal := map[string][]int{}
	for i, s := range samples {
		if len(s.Series) > 0 {
			bySignal[s.Signal] = append(bySignal[s.Signal], i)
		}
	}
	rank := func(i int) float64 {
		s := samples[i]
		switch {
		case s.Entity.Pod == "" && s.Entity.Instance == "" && s.Entity.GPU == "":
			return 1e12 // the pool's own series
		case slices.Contains(scope.Pods, s.Entity.Pod):
			return 1e9
		case s.Z != nil:
			return min(max(*s.Z, -*s.Z), 1e6)
		}
		return 0
	}
	for _, at := range bySignal {
		slices.SortStableFunc(at, func(a, b int) int {
			return cmp.Or(cmp.Compare(rank(b), rank(a)), CompareEntities(samples[a].Entity, samples[b].Entity))
		})
		for _, i := range at[min(chartedEntities, len(at)):] {
			samples[i].Series = nil
		}
	}
}
