package prometheus

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/rules/enrich"
	"paramedic/rules/topology"
	"paramedic/state"
)

// gone returns the charts of the pool's workers that no longer exist. After a rollout, only these
// show the onset.
func (g *gathering) gone() []state.Sample {
	own := map[string]bool{g.query.Scope.Pool: true}
	for _, pod := range g.query.Scope.Pods {
		own[topology.PoolOf(pod)] = true
	}
	type slot struct{ signal, namespace, pod string }
	living, first := map[slot]bool{}, map[slot]*sample{}
	for _, sm := range g.samples {
		of := slot{sm.member.Signal.ID, sm.entity.Namespace, sm.entity.Pod}
		pool := topology.PoolOf(sm.entity.Pod)
		switch have := first[of]; {
		case pool == "" || !own[pool] || sm.entity.GPU != "":
		case sm.now != nil:
			living[of] = true
		case len(sm.charts) > 0 && (have == nil || sm.member.Index < have.member.Index):
			first[of] = sm
		}
	}
	var out []state.Sample
	for of, sm := range first {
		if course := sm.series(enrich.CombineOf(sm.member.Signal, sm.member.Source)); !living[of] && len(course) > 1 {
			out = append(out, state.Sample{Signal: of.signal, Entity: sm.entity, Unit: sm.member.Signal.Unit,
				At: course[len(course)-1].At, Series: course})
		}
	}
	slices.SortFunc(out, func(a, b state.Sample) int {
		return cmp.Or(strings.Compare(a.Signal, b.Signal), enrich.CompareEntities(a.Entity, b.Entity))
	})
	return out
}

// earlier returns the engines that reported a model in the past that was read, and do not now. It
// records which engine each of them ran.
func (g *gathering) earlier(r *enrich.Reading) []state.Entity {
	living, silent := map[string]bool{}, map[string]*sample{}
	for _, sm := range g.samples {
		key := enrich.WorkerKey(sm.entity)
		switch {
		case sm.entity.Model == "" || sm.member.Pool || !sm.member.OfEngine():
		case sm.now != nil:
			living[key] = true
		case silent[key] == nil || enrich.CompareEntities(sm.entity, silent[key].entity) < 0:
			silent[key] = sm
		}
	}
	var out []state.Entity
	for key, sm := range silent {
		if !living[key] && (sm.entity.Pod != "" || sm.entity.Instance != "") {
			out = append(out, sm.entity)
			r.Runs(sm.entity, sm.member.Source.Engine)
		}
	}
	slices.SortFunc(out, enrich.CompareEntities)
	return out
}
