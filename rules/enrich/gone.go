package enrich

import (
	"cmp"
	"slices"

	"paramedic/rules/topology"
	"paramedic/state"
)

// gone returns the charts of workers that no longer exist, limited to those that will be shown.
func (m *merge) gone() []state.Sample {
	var out []state.Sample
	for _, r := range m.readings {
		for _, s := range r.Gone {
			s.Entity.Cluster, s.Entity.Pool = m.query.Cluster, cmp.Or(s.Entity.Pool, topology.PoolOf(s.Entity.Pod))
			out = append(out, s)
		}
	}
	keepSeries(out, m.query.Scope)
	return slices.DeleteFunc(out, func(s state.Sample) bool { return len(s.Series) == 0 })
}
