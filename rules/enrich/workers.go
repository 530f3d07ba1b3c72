package enrich

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/rules/topology"
	"paramedic/state"
)

// findWorkers takes the workers from Kubernetes, or derives them from labels if Kubernetes gave
// none.
func (m *merge) findWorkers() {
	known := map[string]bool{}
	for _, r := range m.readings {
		for _, w := range r.Workers {
			if key := w.Namespace + "/" + w.Pod + "/" + w.Instance; !known[key] {
				known[key] = true
				m.workers = append(m.workers, w)
			}
		}
	}
	models, several, gpus := map[string]string{}, map[string]bool{}, map[string][]string{}
	named := m.engineNames()
	for _, r := range m.readings {
		for _, s := range r.Samples {
			e := s.Entity
			key := e.Namespace + "/" + e.Pod
			// Kubernetes knows only the name on the command line, which the engine may not use.
			if e.Pod != "" && e.Model != "" && len(r.Workers) == 0 && (!named[key] || s.Signal == m.query.Running.ID) {
				several[key] = several[key] || models[key] != "" && !strings.EqualFold(models[key], e.Model)
				models[key] = e.Model
			}
			if e.Pod != "" && e.GPU != "" && !slices.Contains(gpus[key], e.GPU) {
				gpus[key] = append(gpus[key], e.GPU)
			}
		}
	}
	for i := range m.workers {
		w := &m.workers[i]
		key := w.Namespace + "/" + w.Pod
		if w.Model != "" ||
			!several[key] { // otherwise its engines serve different models, and the pod has none of its own
			w.Model = cmp.Or(models[key], w.Model) // the name under which the engine serves it
		}
		if len(w.GPUs) == 0 {
			w.GPUs = gpus[key] // the GPU exporter knows a pod's devices; the API server does not
			slices.Sort(w.GPUs)
		}
	}
	if m.guessed = len(m.workers) == 0; m.guessed {
		m.guessWorkers()
	} else {
		m.addReporting()
	}
	for i := range m.workers {
		w := &m.workers[i]
		for _, r := range m.readings {
			e := state.Entity{Namespace: w.Namespace, Pod: w.Pod, Instance: w.Instance}
			w.Engine = cmp.Or(w.Engine, r.Engines[WorkerKey(e)])
		}
	}
	slices.SortFunc(m.workers, func(a, b state.Worker) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.Instance, b.Instance))
	})
}

// engineNames returns the pods whose engines report their model's name with the requests. Their
// other series may have a label "model" of the pod, which the scrape added.
func (m *merge) engineNames() map[string]bool {
	out := map[string]bool{}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			if s.Signal == m.query.Running.ID && s.Entity.Pod != "" && s.Entity.Model != "" {
				out[s.Entity.Namespace+"/"+s.Entity.Pod] = true
			}
		}
	}
	return out
}

// addReporting adds the pods that report an engine's metrics and answer now, but that Kubernetes'
// reader does not recognise by their image and command.
func (m *merge) addReporting() {
	known, up, node := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, w := range m.workers {
		known[w.Namespace+"/"+w.Pod] = true
	}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			switch key := WorkerKey(s.Entity); {
			case s.Signal == "up" && s.Value > 0:
				up[key] = true
			case s.Signal == "pod_node":
				node[key] = s.Text
			}
		}
	}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			e, key := s.Entity, WorkerKey(s.Entity)
			if e.Pod == "" || e.Model == "" || e.GPU != "" || r.Engines[key] == "" || known[key] || !up[key] {
				continue
			}
			known[key] = true
			m.workers = append(m.workers, state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: topology.PoolOf(e.Pod), Model: e.Model,
				Instance: e.Instance, Node: cmp.Or(e.Node, node[key]), Ready: true})
		}
	}
}

func (m *merge) index() {
	m.byPod, m.byInstance, m.byNode = map[string]*state.Worker{}, map[string]*state.Worker{},
		map[string][]*state.Worker{}
	m.poolOf, m.modelName = map[string]string{}, map[string]string{}
	m.podless = len(m.workers) > 0
	for i := range m.workers {
		w := &m.workers[i]
		m.podless = m.podless && w.Pod == ""
		if w.Pod != "" {
			m.byPod[w.Namespace+"/"+w.Pod] = w
			m.byPod["/"+w.Pod] = w
		}
		if w.Instance != "" {
			m.byInstance[w.Instance] = w
			if h := host(w.Instance); w.Pod != "" && !loopback(w.Instance) {
				if other := m.byInstance[h]; other != nil && other.Pod != w.Pod {
					m.shared[h] = true
				}
				m.byInstance[h] = w
			}
		}
		if w.Node != "" {
			m.byNode[w.Node] = append(m.byNode[w.Node], w)
		}
		lower := strings.ToLower(w.Model)
		if lower == "" {
			continue
		}
		m.modelName[lower] = w.Model
		for _, key := range []string{w.Namespace + "/" + lower, "/" + lower} {
			if have, ok := m.poolOf[key]; ok && have != w.Pool {
				m.poolOf[key] = ""
			} else {
				m.poolOf[key] = w.Pool
			}
		}
	}
}
