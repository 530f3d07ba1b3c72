package enrich

import (
	"cmp"
	"slices"

	"paramedic/rules/topology"
	"paramedic/state"
)

// scraped adds to each worker the jobs that scrape it. A page of a pod that no longer exists counts
// for the workers that replaced it, because a job selects pods by their labels.
func (m *merge) scraped() {
	for _, r := range m.readings {
		for _, s := range r.Scraped {
			for _, w := range m.readBy(s.Entity) {
				if !slices.Contains(w.Jobs, s.By) {
					w.Jobs = append(w.Jobs, s.By)
				}
			}
		}
	}
	for _, w := range m.workers {
		slices.SortFunc(w.Jobs, func(a, b state.ScrapeJob) int {
			return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Service, b.Service))
		})
	}
}

// readBy returns the worker of a page, or else the workers of the pool that its pod belonged to.
func (m *merge) readBy(e state.Entity) []*state.Worker {
	e = m.resolve(e)
	switch {
	case e.Pod == "" && m.byInstance[e.Instance] != nil:
		return []*state.Worker{m.byInstance[e.Instance]}
	case e.Pod == "":
		return nil
	case m.byPod[e.Namespace+"/"+e.Pod] != nil:
		return []*state.Worker{m.byPod[e.Namespace+"/"+e.Pod]}
	}
	var out []*state.Worker
	for i := range m.workers {
		w := &m.workers[i]
		if pool := topology.PoolOf(e.Pod); pool != "" && !differ(w.Namespace, e.Namespace) &&
			(w.Pool == pool || topology.PoolOf(w.Pod) == pool) {
			out = append(out, w)
		}
	}
	return out
}
