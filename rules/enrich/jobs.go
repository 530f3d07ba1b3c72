package enrich

import (
	"cmp"
	"slices"
	"strings"

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

// guessPools sets the pool of workers that have only an address, if their job scrapes one model
// alone and names the pool. The job of a PodMonitor is namespace/name. Another job, such as that of
// a ServiceMonitor, names a pool if a proxy sends requests to a Service of this name.
func (m *merge) guessPools(found map[string]*state.Worker) {
	models, several := map[string]string{}, map[string]bool{}
	each := func(do func(w *state.Worker, job string)) {
		for _, r := range m.readings {
			for _, s := range r.Scraped {
				if w := found[WorkerKey(s.Entity)]; w != nil {
					do(w, s.By.Job)
				}
			}
		}
	}
	each(func(w *state.Worker, job string) {
		several[job] = several[job] || differ(models[job], w.Model)
		models[job] = w.Model
	})
	called := m.upstreams()
	each(func(w *state.Worker, job string) {
		namespace, name, ok := strings.Cut(job, "/")
		if in := called[job]; !ok && len(in) == 1 {
			namespace, name = in[0], job
		}
		if namespace != "" && name != "" && !strings.Contains(name, "/") && !several[job] && w.Pod == "" &&
			w.Pool == "" && !differ(w.Namespace, namespace) {
			w.Namespace, w.Pool = namespace, name
		}
	})
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
