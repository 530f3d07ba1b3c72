package evidence

import (
	"slices"

	"paramedic/rules/catalog"
	"paramedic/rules/topology"
	"paramedic/state"
)

// A BrokenSet holds the pods and nodes that verdicts found broken.
type BrokenSet struct {
	pods  map[string][]string // pod name → namespaces in which a pod of this name is broken
	nodes map[string]bool
}

func (b BrokenSet) none() bool { return len(b.pods)+len(b.nodes) == 0 }

func (b BrokenSet) Pod(namespace, name string) bool {
	return slices.ContainsFunc(b.pods[name], func(of string) bool { return !topology.Differ(of, namespace) })
}

func (b BrokenSet) Node(name string) bool { return b.nodes[name] }

func (b BrokenSet) add(namespace, name string) { b.pods[name] = append(b.pods[name], namespace) }

// drop removes a pod.
func (b BrokenSet) drop(namespace, name string) {
	b.pods[name] = slices.DeleteFunc(b.pods[name], func(of string) bool { return !topology.Differ(of, namespace) })
}

// Broken returns the workers that verdicts found broken, the other pods of their engines, and the
// failed nodes. A cause of a whole pool breaks no single worker.
func Broken(c *catalog.Catalog, top *topology.Topology, by []state.Beside) BrokenSet {
	out := BrokenSet{pods: map[string][]string{}, nodes: map[string]bool{}}
	for _, b := range by {
		cause := c.CauseTable()[b.Cause]
		if cause == nil || !cause.Local() {
			continue
		}
		for _, pod := range b.Scope.Pods {
			out.add(b.Scope.Namespace, pod)
			for _, mate := range top.Mates(state.Entity{Namespace: b.Scope.Namespace, Pod: pod}) {
				out.add(mate.Namespace, mate.Pod)
			}
		}
		for _, node := range b.Scope.Nodes {
			if cause.Scope == "node" {
				out.nodes[node] = true
			}
		}
	}
	return out
}

// told returns the workers and nodes that the verdicts of other incidents found broken. It leaves
// out those that an alert of this incident is about, since the other problem may be a consequence.
// If no alert of this incident names a worker, it may be any worker, and told returns none.
func told(c *catalog.Catalog, in *state.Incident, top *topology.Topology, ev *state.Evidence) BrokenSet {
	if len(ev.Beside) == 0 {
		return BrokenSet{}
	}
	out, anyone := Broken(c, top, ev.Beside), true
	for _, s := range in.Symptoms {
		for _, raw := range s.Entities {
			e := top.Resolve(raw)
			anyone = anyone && e.Pod == "" && e.Node == ""
			out.drop(e.Namespace, e.Pod)
			delete(out.nodes, e.Node)
			for _, mate := range top.Mates(e) {
				out.drop(mate.Namespace, mate.Pod)
			}
			if e.Pod == "" && e.Node != "" {
				for _, w := range top.Nodes[e.Node] {
					out.drop(w.Namespace, w.Pod)
				}
			}
		}
	}
	if anyone {
		return BrokenSet{}
	}
	return out
}

// ExceptBroken returns the entities that no other incident's verdict found broken.
func (v *View) ExceptBroken(hits []*Subject) []*Subject {
	if v.told.none() {
		return hits
	}
	return slices.DeleteFunc(slices.Clone(hits), func(g *Subject) bool {
		return g.pod != "" && v.told.Pod(v.scope.Namespace, g.pod) || g.pod == "" && v.told.Node(g.node)
	})
}
