package rules

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/internal/text"
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
// corrected by live context.
func (c *Catalog) subject(in *state.Incident, scope state.Scope, top *topology) about {
	whole := []state.Scope{scope}
	if scope.Pool != "" || len(scope.Nodes) > 0 {
		return about{scopes: whole, known: true}
	}
	known := scope.Model != "" || ofInference(in)
	if len(top.pools) == 0 {
		return about{scopes: whole, known: known || top.placed(in)}
	}
	pools := top.poolsIn(scope)
	if scraped := top.scrapedPools(in, pools); len(scraped) > 0 {
		return about{scopes: scraped, known: true}
	}
	if strange := c.strange(in, top); strange != "" {
		return about{scopes: whole, strange: strange}
	}
	if len(pools) == 0 {
		return about{scopes: whole, known: known}
	}
	return about{scopes: pools, known: known}
}

// ofInference reports whether an alert's rule is about inference, and not about any workload or
// target.
func ofInference(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return s.Symptom != state.Unclassified && s.Hints[anyTarget] == "" })
}

// placed reports whether an alert names a worker that has no pod.
func (t *topology) placed(in *state.Incident) bool {
	for _, s := range in.Symptoms {
		if slices.ContainsFunc(s.Entities, func(e state.Entity) bool { return t.byInstance[e.Instance] != nil || len(t.scrapers(e)) > 0 }) {
			return true
		}
	}
	return false
}

// scrapedPools returns the pools whose workers are scraped by the alerts' jobs or at their
// addresses.
func (t *topology) scrapedPools(in *state.Incident, pools []state.Scope) []state.Scope {
	keys := map[string]bool{}
	for _, s := range in.Symptoms {
		for _, e := range s.Entities {
			if e.Pod != "" || e.Pool != "" {
				continue
			}
			if w := t.byInstance[e.Instance]; w != nil {
				keys[w.Namespace+"/"+w.Pool] = true
				continue
			}
			for _, w := range t.scrapers(e) {
				keys[w.Namespace+"/"+w.Pool] = true
			}
		}
	}
	var out []state.Scope
	for _, p := range pools {
		if keys[p.Namespace+"/"+p.Pool] {
			out = append(out, p)
		}
	}
	return out
}

// scrapers returns the workers that the entity's job scrapes through the entity's Service. If a
// worker's jobs are unknown, its Kubernetes Services count: a ServiceMonitor's job is named after
// the Service.
func (t *topology) scrapers(e state.Entity) []*state.Worker {
	if e.Job == "" && e.Service == "" {
		return nil
	}
	var out []*state.Worker
	for _, w := range t.all {
		if differ(w.Namespace, e.Namespace) {
			continue
		}
		read := slices.ContainsFunc(w.Jobs, func(j state.ScrapeJob) bool { return !differ(j.Job, e.Job) && !differ(j.Service, e.Service) })
		behind := len(w.Jobs) == 0 && slices.Contains(w.Routes, "Service/"+cmp.Or(e.Service, e.Job))
		if read || behind {
			out = append(out, w)
		}
	}
	return out
}

// ofJob sets the pool and the namespace of an entity if its job scrapes exactly one pool.
func (t *topology) ofJob(e state.Entity) state.Entity {
	read := t.scrapers(e)
	if len(read) == 0 || slices.ContainsFunc(read, func(w *state.Worker) bool { return w.Pool != read[0].Pool || w.Namespace != read[0].Namespace }) {
		return e
	}
	e.Namespace, e.Pool = read[0].Namespace, read[0].Pool
	return e
}

// strange lists what the alerts name if none of it can belong to a known worker; else it returns
// "".
func (c *Catalog) strange(in *state.Incident, top *topology) string {
	var found []string
	for _, s := range in.Symptoms {
		if c.symptoms[s.Symptom].Serving || len(s.Entities) == 0 {
			return "" // a gateway's own pod reports on the workers behind it
		}
		for _, e := range s.Entities {
			name := top.stranger(e)
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
func (t *topology) stranger(e state.Entity) string {
	switch {
	case e.Pod != "":
		if !t.sibling(e) {
			return "the pod " + e.Pod
		}
	case e.Pool != "":
		if t.pools[e.Namespace+"/"+e.Pool] == nil && len(t.behind(e.Namespace, e.Pool)) == 0 {
			return "the workload " + e.Pool
		}
	case e.Job != "" && t.jobsKnown(e.Namespace):
		if len(t.scrapers(e)) == 0 {
			return "the scrape job " + e.Job
		}
	}
	return ""
}

// jobsKnown reports whether the scrape jobs of a worker in the namespace are known.
func (t *topology) jobsKnown(namespace string) bool {
	return slices.ContainsFunc(t.all, func(w *state.Worker) bool { return len(w.Jobs) > 0 && !differ(w.Namespace, namespace) })
}

// sibling reports whether the entity's pod is a worker or has a worker's name pattern: workers are
// replaced, and the new pods keep the pattern.
func (t *topology) sibling(e state.Entity) bool {
	if t.byPod[placeOf(e.Namespace, e.Pod)] != nil || len(t.behind(e.Namespace, e.Pool)) > 0 {
		return true
	}
	stem := func(pod string) string {
		if pool := PoolOf(pod); pool != "" {
			return pool
		}
		return pod[:max(0, strings.LastIndexByte(pod, '-'))]
	}
	own := stem(e.Pod)
	return slices.ContainsFunc(t.all, func(w *state.Worker) bool {
		return !differ(w.Namespace, e.Namespace) && own != "" && (w.Pool == own || w.Pod != "" && stem(w.Pod) == own)
	})
}
