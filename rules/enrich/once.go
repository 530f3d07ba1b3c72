package enrich

import (
	"slices"
	"strings"

	"paramedic/rules/signals"
	"paramedic/state"
)

// once removes a gateway's count for a pool whose workers have the same signal. The two are
// different quantities, and the gateway's does not describe a worker. A pool's value that is no
// aggregate of its workers' values (a quantile, a ratio) stays.
func (m *merge) once(samples []state.Sample) []state.Sample {
	apart := map[string]bool{}
	for _, s := range m.query.Signals {
		apart[s.ID] = s.Per == signals.PerPod && !s.Pooled
	}
	of := func(s state.Sample) string { return s.Signal + "\x00" + s.Entity.Namespace + "\x00" + s.Entity.Pool }
	ofModel := func(s state.Sample) string { return s.Signal + "\x00" + strings.ToLower(s.Entity.Model) }
	// By pool, by the model of workers without a pool, who have no namespace either, and by the
	// model of all workers.
	counted, poolless, models := map[string]bool{}, map[string]bool{}, map[string]bool{}
	ofWorker := func(s state.Sample) bool { return s.Entity.Pod != "" || s.Entity.Instance != "" }
	for _, s := range samples {
		if !ofWorker(s) {
			continue
		}
		models[ofModel(s)] = s.Entity.Model != ""
		if s.Entity.Pool != "" || s.Entity.Pod != "" {
			counted[of(s)] = true
		} else if s.Entity.Model != "" {
			poolless[ofModel(s)] = true
		}
	}
	return slices.DeleteFunc(samples, func(s state.Sample) bool {
		switch e := s.Entity; {
		case !apart[s.Signal] || ofWorker(s):
			return false
		case e.Pool != "":
			return counted[of(s)] || e.Model != "" && poolless[ofModel(s)]
		}
		return s.Entity.Model != "" && models[ofModel(s)] // of several pools that serve the model, such as prefill and decode
	})
}
