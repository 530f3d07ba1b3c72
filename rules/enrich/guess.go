package enrich

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"paramedic/rules"
	"paramedic/state"
)

// guessWorkers makes workers of labels: whatever reports a model is one.
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
				found[key] = &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: rules.PoolOf(e.Pod), Ready: true}
			}
			w := found[key]
			w.Model, w.Instance, w.Node = cmp.Or(w.Model, e.Model), cmp.Or(w.Instance, e.Instance), cmp.Or(w.Node, e.Node)
		}
	}
	m.guessRanks(found)
	for _, r := range m.readings {
		for _, s := range r.Samples {
			w := found[s.Entity.Namespace+"/"+s.Entity.Pod]
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

// rankPod is the form of a LeaderWorkerSet's pods that follow a leader: its name, and the rank.
var rankPod = regexp.MustCompile(`^(.+-([0-9]+))-[0-9]+$`)

// guessRanks finds the pods that run an engine together with one that was found. Only the leader of a LeaderWorkerSet's group reports a
// model; the pods whose names go on from its own are its ranks.
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
			found[e.Namespace+"/"+e.Pod] = &state.Worker{Namespace: e.Namespace, Pod: e.Pod, Pool: leader.Pool, Model: leader.Model, Node: e.Node,
				Group: leader.Group, Ready: true}
		}
	}
}
