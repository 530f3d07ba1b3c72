package enrich

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"paramedic/rules/topology"
	"paramedic/state"
)

// guessWorkers derives workers from labels. An entity that reports a model is a worker. So is a pod
// that Kubernetes counts to such a worker's pool, even if its own page does not answer.
func (m *merge) guessWorkers() {
	found := map[string]*state.Worker{}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			e := s.Entity
			if e.Model == "" || e.GPU != "" || e.Pod == "" && e.Instance == "" {
				continue
			}
			key := WorkerKey(e)
			if found[key] == nil {
				found[key] = &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: topology.PoolOf(e.Pod), Ready: true}
			}
			w := found[key]
			w.Model, w.Instance, w.Node = cmp.Or(w.Model, e.Model), cmp.Or(w.Instance, e.Instance),
				cmp.Or(w.Node, e.Node)
		}
	}
	m.guessEarlier(found)
	m.guessRanks(found)
	m.guessSilent(found)
	guessByStem(found)
	m.guessByJob(found)
	m.guessPools(found)
	for _, r := range m.readings {
		for _, s := range r.Samples {
			w := found[WorkerKey(s.Entity)]
			switch {
			case w == nil:
			case s.Signal == "pod_node":
				w.Node = cmp.Or(w.Node, s.Text)
			case s.Signal == "pod_ready", s.Signal == "up":
				w.Ready = w.Ready && s.Value > 0
			case s.Entity.GPU != "":
				if !slices.Contains(w.GPUs, s.Entity.GPU) {
					w.GPUs = append(w.GPUs, s.Entity.GPU)
				}
				w.Node = cmp.Or(w.Node, s.Entity.Node)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(found)) {
		slices.Sort(found[k].GPUs)
		m.workers = append(m.workers, *found[k])
	}
}

// guessEarlier finds workers that reported a model before the onset, and are silent now. Their
// targets or pods still exist, so they were not scaled down.
func (m *merge) guessEarlier(found map[string]*state.Worker) {
	exists := map[string]bool{}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			switch s.Signal {
			case "up", "pod_ready", "pod_node":
				exists[WorkerKey(s.Entity)] = true
			}
		}
	}
	for _, r := range m.readings {
		for _, e := range r.Earlier {
			if key := WorkerKey(e); exists[key] && found[key] == nil {
				found[key] = &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: topology.PoolOf(e.Pod), Model: e.Model,
					Instance: e.Instance, Node: e.Node, Ready: true}
			}
		}
	}
}

// guessByStem sets the pool of workers whose name has no known form: the pool of a peer whose pods
// have the same name but for the suffix. A suffix without a digit could be a word.
func guessByStem(found map[string]*state.Worker) {
	pools := map[[2]string]bool{}
	for _, w := range found {
		pools[[2]string{w.Namespace, w.Pool}] = true
	}
	for _, w := range found {
		if i := strings.LastIndexByte(w.Pod, '-'); w.Pool == "" && i > 0 && pools[[2]string{w.Namespace, w.Pod[:i]}] {
			w.Pool = w.Pod[:i]
		}
	}
}

// rankPod matches the names of pods that follow a leader in a LeaderWorkerSet: the leader's name,
// then the rank.
var rankPod = regexp.MustCompile(`^(.+-([0-9]+))-[0-9]+$`)

// guessRanks finds the pods that run an engine together with a worker that was found. Only the
// leader of a LeaderWorkerSet's group reports a model. Pods named after it, with a rank, are its
// ranks.
func (m *merge) guessRanks(found map[string]*state.Worker) {
	for _, r := range m.readings {
		for _, s := range r.Samples {
			e := s.Entity
			if e.Pod == "" || found[e.Namespace+"/"+e.Pod] != nil {
				continue
			}
			form := rankPod.FindStringSubmatch(e.Pod)
			if form == nil {
				continue
			}
			leader := found[e.Namespace+"/"+form[1]]
			if leader == nil {
				continue
			}
			leader.Group = form[2]
			found[e.Namespace+"/"+e.Pod] = &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: leader.Pool,
				Model: leader.Model, Node: e.Node,
				Group: leader.Group, Ready: true}
		}
	}
}

// guessSilent finds workers whose pages do not answer. These are pods that Kubernetes counts to the
// pool of a known worker, and pods that hold GPUs and have a page that is down.
func (m *merge) guessSilent(found map[string]*state.Worker) {
	pools := map[[2]string]*state.Worker{}
	for _, k := range slices.Sorted(maps.Keys(found)) {
		if w := found[k]; w.Pool != "" && pools[[2]string{w.Namespace, w.Pool}] == nil {
			pools[[2]string{w.Namespace, w.Pool}] = w
		}
	}
	holds, silent := map[string]bool{}, []*state.Worker{}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			holds[WorkerKey(s.Entity)] = holds[WorkerKey(s.Entity)] || s.Entity.GPU != "" && s.Entity.Pod != ""
		}
	}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			e, key := s.Entity, WorkerKey(s.Entity)
			if e.Pod == "" || found[key] != nil {
				continue
			}
			w := &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: topology.PoolOf(e.Pod), Node: e.Node, Ready: true}
			switch peer := pools[[2]string{e.Namespace, w.Pool}]; {
			case peer != nil && (s.Signal == "pod_ready" || s.Signal == "pod_node"):
				w.Model = peer.Model
			case s.Signal == "up" && s.Value == 0 && m.located[key] && holds[key]:
				silent = append(silent, w)
			default:
				continue
			}
			found[key] = w
		}
	}
	if model := m.unserved(found); model != "" &&
		!slices.ContainsFunc(silent, func(w *state.Worker) bool { return w.Pool != silent[0].Pool }) {
		for _, w := range silent {
			w.Model = model
		}
	}
}

// guessByJob finds workers that never answered and have only an address. The job that scrapes them
// reads workers of one model, and nothing else that answers.
func (m *merge) guessByJob(found map[string]*state.Worker) {
	up := map[string]float64{}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			if s.Signal == "up" {
				up[WorkerKey(s.Entity)] = s.Value
			}
		}
	}
	hosts, models := map[string]bool{}, map[state.ScrapeJob]string{}
	for _, w := range found {
		hosts[host(w.Instance)] = true
	}
	silent := map[string]state.ScrapeJob{}
	const mixed = "\x00" // no model has this name
	for _, r := range m.readings {
		for _, s := range r.Scraped {
			key := WorkerKey(s.Entity)
			value, scraped := up[key]
			w := found[key]
			switch {
			case w != nil && differ(models[s.By], w.Model), w == nil && scraped && value > 0:
				models[s.By] = mixed
			case w != nil && w.Model != "":
				models[s.By] = w.Model
			case w == nil && scraped && s.Entity.Pod == "" && !hosts[host(s.Entity.Instance)]:
				silent[key] = s.By
			}
		}
	}
	for key, job := range silent {
		if model := models[job]; model != "" && model != mixed && job.Job != "" {
			_, address, _ := strings.Cut(key, "/")
			found[key] = &state.Worker{Model: model, Instance: address, Ready: true}
		}
	}
}

// unserved returns the one model that a gateway or frontend reports and that none of the workers
// serves. It returns "" if there is none, or more than one.
func (m *merge) unserved(found map[string]*state.Worker) string {
	served := map[string]bool{}
	for _, w := range found {
		served[strings.ToLower(w.Model)] = true
	}
	only := ""
	for _, r := range m.readings {
		for _, s := range r.Samples {
			switch name := s.Entity.Model; {
			case name == "" || served[strings.ToLower(name)] || strings.EqualFold(name, only):
			case only != "":
				return ""
			default:
				only = name
			}
		}
	}
	return only
}

// locate finds the pods of pages that do not name their pod. Kubernetes' metrics contain the pods'
// addresses. A page that is read through a proxy has its pod's name in its path.
func (m *merge) locate() {
	byIP, byName := map[string]state.Entity{}, map[string]state.Entity{}
	learn := func(known map[string]state.Entity, name string, e state.Entity) {
		if have, ok := known[name]; ok && (have.Namespace != e.Namespace || have.Pod != e.Pod) {
			e = state.Entity{} // pods that share their node's address, or one name in two namespaces
		}
		known[name] = e
	}
	for i := range m.readings {
		for j := range m.readings[i].Samples {
			s := &m.readings[i].Samples[j]
			if s.Entity.Pod == "" || s.Signal != "pod_node" && s.Signal != "pod_ready" {
				continue
			}
			pod := state.Entity{Namespace: s.Entity.Namespace, Pod: s.Entity.Pod}
			learn(byName, pod.Pod, pod)
			if s.Entity.Instance != "" {
				learn(byIP, s.Entity.Instance, pod)
				s.Entity.Instance = ""
			}
		}
	}
	m.located = map[string]bool{}
	m.share()
	if len(byName) == 0 {
		return
	}
	place := func(e *state.Entity) {
		if e.Pod != "" || e.Instance == "" {
			return
		}
		address, path, _ := strings.Cut(e.Instance, "/")
		pod := byIP[host(address)]
		if m.ofAnother(*e) || differ(e.Namespace, pod.Namespace) {
			pod = state.Entity{}
		}
		for _, part := range strings.Split(path, "/") {
			if name, _, _ := strings.Cut(part, ":"); pod.Pod == "" && name != "" {
				pod = byName[name]
			}
		}
		if pod.Pod != "" {
			e.Namespace, e.Pod = pod.Namespace, pod.Pod
			m.located[WorkerKey(*e)] = true
		}
	}
	for i := range m.readings {
		for j := range m.readings[i].Samples {
			place(&m.readings[i].Samples[j].Entity)
		}
		for j := range m.readings[i].Scraped {
			place(&m.readings[i].Scraped[j].Entity)
		}
		for j := range m.readings[i].Earlier {
			place(&m.readings[i].Earlier[j])
		}
	}
}
