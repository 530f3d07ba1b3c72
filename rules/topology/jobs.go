package topology

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
)

// Placed reports whether an alert names a worker that has no pod.
func (t *Topology) Placed(in *state.Incident) bool {
	for _, s := range in.Symptoms {
		if slices.ContainsFunc(s.Entities,
			func(e state.Entity) bool { return t.byInstance[e.Instance] != nil || len(t.Scrapers(e)) > 0 }) {
			return true
		}
	}
	return false
}

// ScrapedPools returns the pools whose workers are scraped by the alerts' jobs or at their
// addresses.
func (t *Topology) ScrapedPools(in *state.Incident, pools []state.Scope) []state.Scope {
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
			for _, w := range t.Scrapers(e) {
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

// ScrapedModel returns the model of the workers without a known pool that the alerts' jobs scrape
// or that are at the alerts' addresses. It returns "" if there are none, or if they serve several.
func (t *Topology) ScrapedModel(in *state.Incident) string {
	model := ""
	for _, s := range in.Symptoms {
		for _, e := range s.Entities {
			if e.Pod != "" || e.Pool != "" {
				continue
			}
			read := t.Scrapers(e)
			if w := t.byInstance[e.Instance]; w != nil {
				read = []*state.Worker{w}
			}
			for _, w := range read {
				if w.Pool != "" || w.Model == "" || model != "" && !strings.EqualFold(model, w.Model) {
					return ""
				}
				model = w.Model
			}
		}
	}
	return model
}

// OnlyModel returns the model that all workers serve if no pool is known; else it returns "".
func (t *Topology) OnlyModel() string {
	if len(t.all) == 0 || len(t.Pools) > 0 || slices.ContainsFunc(t.all,
		func(w *state.Worker) bool { return !strings.EqualFold(w.Model, t.all[0].Model) }) {
		return ""
	}
	return t.all[0].Model
}

// Scrapers returns the workers that the entity's job scrapes through the entity's Service. If a
// worker's jobs are unknown, its Kubernetes Services count, and its pool of the same name: a
// ServiceMonitor's job is named after the Service, and a PodMonitor's is namespace/name.
func (t *Topology) Scrapers(e state.Entity) []*state.Worker {
	if e.Job == "" && e.Service == "" {
		return nil
	}
	var out []*state.Worker
	for _, w := range t.all {
		if Conflict(w.Namespace, e.Namespace) {
			continue
		}
		read := slices.ContainsFunc(w.Jobs,
			func(j state.ScrapeJob) bool { return !Conflict(j.Job, e.Job) && !Conflict(j.Service, e.Service) })
		name := cmp.Or(e.Service, e.Job[strings.LastIndexByte(e.Job, '/')+1:])
		behind := len(w.Jobs) == 0 && (slices.Contains(w.Routes, "Service/"+name) || name != "" && w.Pool == name)
		if read || behind {
			out = append(out, w)
		}
	}
	return out
}

// ofJob sets the pool, namespace and model of an entity if its job scrapes exactly one pool.
func (t *Topology) ofJob(e state.Entity) state.Entity {
	read := t.Scrapers(e)
	if len(read) == 0 || slices.ContainsFunc(read,
		func(w *state.Worker) bool { return w.Pool != read[0].Pool || w.Namespace != read[0].Namespace }) {
		return e
	}
	e.Namespace, e.Pool = cmp.Or(read[0].Namespace, e.Namespace), read[0].Pool
	if !slices.ContainsFunc(read, func(w *state.Worker) bool { return w.Model != read[0].Model }) {
		e.Model = cmp.Or(e.Model, read[0].Model)
	}
	return e
}

// JobsKnown reports whether the scrape jobs of a worker in the namespace are known.
func (t *Topology) JobsKnown(namespace string) bool {
	return slices.ContainsFunc(t.all,
		func(w *state.Worker) bool { return len(w.Jobs) > 0 && !Conflict(w.Namespace, namespace) })
}

// Sibling reports whether the entity's pod is a worker or has a worker's name pattern: workers are
// replaced, and the new pods keep the pattern.
func (t *Topology) Sibling(e state.Entity) bool {
	if t.ByPod[PlaceOf(e.Namespace, e.Pod)] != nil || len(t.Behind(e.Namespace, e.Pool)) > 0 {
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
		return !Conflict(w.Namespace, e.Namespace) && own != "" && (w.Pool == own || w.Pod != "" && stem(w.Pod) == own)
	})
}
