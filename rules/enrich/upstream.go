package enrich

import (
	"slices"
	"strings"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// follow replaces the Services, routes and InferencePools that proxies and endpoint pickers count
// by the pools behind them.
func (m *merge) follow() {
	m.spread()
	strangers, known := map[string][]string{}, map[string]bool{} // by namespace
	m.eachUpstream(func(e *state.Entity) {
		pools := m.behind(*e)
		switch {
		case len(pools) == 1:
			e.Pool, known[e.Namespace] = pools[0], true
		case len(pools) == 0 && !slices.Contains(strangers[e.Namespace], e.Pool):
			strangers[e.Namespace] = append(strangers[e.Namespace], e.Pool)
		}
	})
	m.eachUpstream(func(e *state.Entity) {
		only := m.onlyPool(e.Namespace)
		// The only name leads to the only pool of the namespace if routes are unknown.
		if m.guessed && only != "" && !known[e.Namespace] && slices.Equal(strangers[e.Namespace], []string{e.Pool}) {
			e.Pool = only
		}
	})
}

// spread gives each of the pools behind one name its own sample. Prefill and decode workers, for
// instance, are two workloads behind one InferencePool. A share or a number of endpoints holds for
// all of them, and a rate is the sum of all. The name of an InferencePool without known workers is
// dropped.
func (m *merge) spread() {
	shared, picked := map[string]bool{}, map[string]bool{}
	for _, s := range m.wanted {
		of := func(engine string) bool {
			return slices.ContainsFunc(s.Sources, func(src signals.Source) bool { return src.Engine == engine })
		}
		shared[s.ID] = (of("ingress") || of("epp")) && s.Unit != "1/s"
		picked[s.ID] = of("epp") && !of("ingress")
	}
	for i := range m.readings {
		r := &m.readings[i]
		var more []state.Sample
		for j := range r.Samples {
			s := &r.Samples[j]
			if e := &s.Entity; !shared[s.Signal] || e.Pod != "" || e.Instance != "" || e.Pool == "" {
				continue
			}
			pools := m.behind(s.Entity)
			if len(pools) == 0 && picked[s.Signal] {
				s.Entity.Pool = ""
			}
			for k, pool := range pools {
				if k == 0 {
					s.Entity.Pool = pool
					continue
				}
				other := *s
				other.Entity.Pool = pool
				more = append(more, other)
			}
		}
		if len(more) > 0 {
			r.Samples = slices.Concat(r.Samples, more)
		}
	}
}

// eachUpstream calls do with the entity of each sample that a proxy counts for a Service or route.
func (m *merge) eachUpstream(do func(e *state.Entity)) {
	routed := map[string]bool{}
	for _, s := range m.wanted {
		routed[s.ID] = slices.ContainsFunc(s.Sources, func(src signals.Source) bool { return src.Engine == "ingress" })
	}
	for i := range m.readings {
		for j := range m.readings[i].Samples {
			s := &m.readings[i].Samples[j]
			if e := &s.Entity; routed[s.Signal] && e.Pod == "" && e.Instance == "" && e.Pool != "" {
				do(e)
			}
		}
	}
}

// upstreams returns the namespaces in which a proxy sends requests to a Service, by its name.
func (m *merge) upstreams() map[string][]string {
	out := map[string][]string{}
	m.eachUpstream(func(e *state.Entity) {
		if !slices.Contains(out[e.Pool], e.Namespace) {
			out[e.Pool] = append(out[e.Pool], e.Namespace)
		}
	})
	return out
}

// about returns the pools of the series that alerts without a place are about. A series that
// belongs to no known pool adds nothing.
func (m *merge) about() []state.Entity {
	var out []state.Entity
	add := func(w *state.Worker, cluster string) {
		e := state.Entity{Cluster: cluster, Namespace: w.Namespace, Pool: w.Pool, Model: w.Model}
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	for _, r := range m.readings {
		for _, e := range r.About {
			if topology.Placeless(e) && e.Instance == "" {
				continue // a recorded sum: it may be of anything
			}
			e = m.resolve(e)
			var pools []string
			if e.Pool != "" {
				pools = m.behind(e)
			}
			ofModel := e.Pool == "" && e.Pod == "" && e.Instance == "" && e.Model != ""
			for i := range m.workers {
				w := &m.workers[i]
				own := e.Instance != "" && w == m.byInstance[e.Instance]
				serves := ofModel && strings.EqualFold(w.Model, e.Model) && !differ(w.Namespace, e.Namespace)
				if own || serves || slices.Contains(pools, w.Pool) && !differ(w.Namespace, e.Namespace) {
					add(w, e.Cluster)
				}
			}
		}
	}
	slices.SortFunc(out, CompareEntities)
	return out
}

// behind returns the pools that the name of a pool, its owner, a route or a scraped Service stands
// for.
func (m *merge) behind(e state.Entity) []string {
	var out []string
	for _, w := range m.workers {
		known := w.Pool == e.Pool || w.Owner == e.Pool ||
			slices.ContainsFunc(w.Routes, func(r string) bool { return strings.HasSuffix(r, "/"+e.Pool) }) ||
			slices.ContainsFunc(w.Jobs, func(j state.ScrapeJob) bool { return j.Service == e.Pool })
		if known && w.Pool != "" && !differ(w.Namespace, e.Namespace) && !slices.Contains(out, w.Pool) {
			out = append(out, w.Pool)
		}
	}
	return out
}
