package diagnose

import (
	"slices"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/topology"
	"paramedic/state"
)

// anyTarget is the hint key of rules that fire for every scrape target, inference or not.
const anyTarget = "any_target"

// An about holds what the alerts of an incident are about, as far as live context can tell.
type about struct {
	scopes []state.Scope // pools that the alerts can mean
	known  bool          // the alerts name these pools or their workers
	// strange lists what the alerts name instead of a pool: a job, a pod or a workload without a
	// known worker. If it is set, the alerts mean no pool.
	strange string
}

// subject returns the pools that the alerts of an incident can mean. The scope is the incident's,
// corrected by live context. Read holds the pools of the series that alerts without a place read.
func subject(c *catalog.Catalog, in *state.Incident, scope state.Scope, top *topology.Topology, read []state.Entity) about {
	whole := []state.Scope{scope}
	if scope.Pool != "" || len(scope.Nodes) > 0 {
		return about{scopes: whole, known: true}
	}
	if scope.Model == "" && placeless(in) && len(read) > 0 {
		out := about{known: true}
		for _, e := range read {
			out.scopes = append(out.scopes, state.Scope{Cluster: scope.Cluster, Namespace: e.Namespace, Pool: e.Pool, Model: e.Model})
		}
		return out
	}
	if model := top.ScrapedModel(in); scope.Model == "" && model != "" {
		scope.Model = model
		return about{scopes: []state.Scope{scope}, known: true}
	}
	if scope.Model == "" && ofInference(in) {
		scope.Model = top.OnlyModel()
		whole[0] = scope
	}
	known := scope.Model != "" || ofInference(in)
	if len(top.Pools) == 0 {
		return about{scopes: whole, known: known || top.Placed(in)}
	}
	pools := top.PoolsIn(scope)
	if scraped := top.ScrapedPools(in, pools); len(scraped) > 0 {
		return about{scopes: scraped, known: true}
	}
	if strange := strange(c, in, top); strange != "" {
		return about{scopes: whole, strange: strange}
	}
	if len(pools) == 0 {
		return about{scopes: whole, known: known}
	}
	return about{scopes: pools, known: known}
}

// placeless reports whether every alert of the incident names no place, and reads series.
func placeless(in *state.Incident) bool {
	return !slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		return s.Hints[state.SeriesHint] == "" ||
			slices.ContainsFunc(s.Entities, func(e state.Entity) bool { return !topology.Placeless(e) })
	})
}

// ofInference reports whether an alert's rule is about inference, and not about any workload or
// target.
func ofInference(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms,
		func(s state.SymptomCount) bool { return s.Symptom != state.Unclassified && s.Hints[anyTarget] == "" })
}

// strange lists what the alerts name if none of it can belong to a known worker; else it returns
// "".
func strange(c *catalog.Catalog, in *state.Incident, top *topology.Topology) string {
	var found []string
	for _, s := range in.Symptoms {
		if c.SymptomTable()[s.Symptom].Serving || len(s.Entities) == 0 {
			return "" // a gateway's own pod reports on the workers behind it
		}
		for _, e := range s.Entities {
			name := stranger(top, e)
			if name == "" {
				return ""
			}
			if !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return text.List(found)
}

// stranger describes the pod, workload or job that the entity names if no known worker belongs to
// it. It returns "" if a worker may belong to it, or if the entity names nothing.
func stranger(t *topology.Topology, e state.Entity) string {
	switch {
	case e.Pod != "":
		if !t.Sibling(e) {
			return "the pod " + e.Pod
		}
	case e.Pool != "":
		if t.Pools[e.Namespace+"/"+e.Pool] == nil && len(t.Behind(e.Namespace, e.Pool)) == 0 {
			return "the workload " + e.Pool
		}
	case e.Job != "" && t.JobsKnown(e.Namespace):
		if len(t.Scrapers(e)) == 0 {
			return "the scrape job " + e.Job
		}
	}
	return ""
}
