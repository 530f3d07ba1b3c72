package rules

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

// anyTarget is the hint of an alert whose rule fires for every scrape target, inference or not.
const anyTarget = "any_target"

// An about holds what the alerts of an incident are about, as far as live context can tell.
type about struct {
	scopes []state.Scope // the pools that may be meant
	known  bool          // the alerts say that it is about these
	// strange is what the alerts name instead of a pool, in words: a job, a pod or a workload
	// without a worker. No pool is meant then.
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

// ofInference reports whether an alert is of a rule on inference, and not on any workload or
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

// scrapedPools returns those of the pools that are read by the jobs, or at the addresses, that the
// alerts name.
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

// scrapers returns the workers that are read by the entity's job and through its Service. A Service
// that Kubernetes knows counts too, since a ServiceMonitor's job is called after it.
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

// ofJob fills in the pool and the namespace of an entity whose job reads one pool alone.
func (t *topology) ofJob(e state.Entity) state.Entity {
	read := t.scrapers(e)
	if len(read) == 0 || slices.ContainsFunc(read, func(w *state.Worker) bool { return w.Pool != read[0].Pool || w.Namespace != read[0].Namespace }) {
		return e
	}
	e.Namespace, e.Pool = read[0].Namespace, read[0].Pool
	return e
}

// strange returns what the alerts name of which no worker is known, where none of them can be about
// one; else "".
func (c *Catalog) strange(in *state.Incident, top *topology) string {
	var found []string
	for _, s := range in.Symptoms {
		if c.symptoms[s.Symptom].Serving || len(s.Entities) == 0 {
			return "" // a gateway's own pod speaks of the workers behind it
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

// stranger returns how the entity calls what no known worker belongs to; "" where it may belong to
// one, or names nothing.
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

// jobsKnown reports whether it is known by which jobs workers of the namespace are read.
func (t *topology) jobsKnown(namespace string) bool {
	return slices.ContainsFunc(t.all, func(w *state.Worker) bool { return len(w.Jobs) > 0 && !differ(w.Namespace, namespace) })
}

// sibling reports whether the entity's pod is a worker, or is called like one: workers are
// replaced, and their names go on.
func (t *topology) sibling(e state.Entity) bool {
	if t.byPod[place{e.Namespace, e.Pod}] != nil || len(t.behind(e.Namespace, e.Pool)) > 0 {
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
