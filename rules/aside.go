package rules

import (
	"maps"
	"slices"

	"paramedic/state"
)

// mostAside limits the workers and nodes outside the verdict that are checked one by one for a
// second incident. If more have alerts of their own, the problem belongs to the pool.
const mostAside = 8

// Aside returns the alerts of a second problem in an incident. They are about a worker or node
// outside the verdict, and the evidence there names an independent cause. Alerts alone do not
// suffice: a neighbour's load fills a cache just as a leak does.
func (c *Catalog) Aside(in *state.Incident, alerts []*state.AlertRecord, ev *state.Evidence) []*state.AlertRecord {
	root := c.byID[in.Cause()]
	if root == nil || !root.local() {
		return nil
	}
	top := topologies.Get().(*topology)
	defer top.release()
	top.learn(ev.Workers)
	verdict := state.Beside{Incident: in.ID, Cause: in.Cause(), Scope: in.Diagnosis.Scope}
	broken := c.broken(top, []state.Beside{verdict})
	places := top.aside(alerts, broken)
	if len(places) > mostAside {
		return nil
	}
	known := *ev
	known.Beside = append(slices.Clip(ev.Beside), verdict)
	for _, name := range slices.Sorted(maps.Keys(places)) {
		part := &state.Incident{Cluster: in.Cluster, Scope: state.Scope{Cluster: in.Scope.Cluster}}
		for _, a := range places[name] {
			part.Count(a, false, a.Alert.StartsAt)
		}
		second := c.verdict(part, &known)
		moved := second.tellsOf(alerts, top)
		if second.named && second.ranked[0].cause.besides(root, in.Symptoms) && !second.takes(broken, top) && len(moved) > 0 && len(moved) < len(alerts) {
			second.release()
			return moved
		}
		second.release()
	}
	return nil
}

// besides reports whether the cause breaks single workers and is not a known consequence of root.
func (c *Cause) besides(root *Cause, symptoms []state.SymptomCount) bool {
	return c != root && c.local() && !root.leadsTo(c.ID, symptoms)
}

// takes reports whether the first cause was found on something that is already broken, such as the
// node of a broken worker. It may then be the root, so it is not a second problem.
func (v verdict) takes(b breakage, top *topology) bool {
	best := &v.ranked[0]
	return slices.ContainsFunc(best.pods, func(p string) bool { return b.pod(v.view.scope.Namespace, p) }) ||
		best.cause.Scope == "node" && slices.ContainsFunc(best.nodes, func(n string) bool { return b.node(n) || top.hosts(n, b) })
}

// aside groups alerts by the worker or node that they are about. It leaves out alerts about broken
// entities and alerts about no single entity.
func (t *topology) aside(alerts []*state.AlertRecord, b breakage) map[string][]*state.AlertRecord {
	machines := map[string]bool{} // nodes with alerts of their own
	for _, a := range alerts {
		if e := t.resolve(a.Sign.Entity); e.Pod == "" && e.Node != "" {
			machines[e.Node] = true
		}
	}
	out := map[string][]*state.AlertRecord{}
	for _, a := range alerts {
		e := t.resolve(a.Sign.Entity)
		where := e.Pod
		if machines[e.Node] {
			where = e.Node
		}
		if where == "" || b.pod(e.Namespace, e.Pod) || b.node(e.Node) || e.Pod == "" && t.hosts(e.Node, b) {
			continue
		}
		out[where] = append(out[where], a)
	}
	return out
}

// hosts reports whether a broken worker runs on the node.
func (t *topology) hosts(node string, b breakage) bool {
	return slices.ContainsFunc(t.nodes[node], func(w *state.Worker) bool { return b.pod(w.Namespace, w.Pod) })
}

// tellsOf returns the alerts about the broken entities that the first cause explains.
func (v verdict) tellsOf(alerts []*state.AlertRecord, top *topology) []*state.AlertRecord {
	if len(v.ranked) == 0 {
		return nil
	}
	best := &v.ranked[0]
	var out []*state.AlertRecord
	for _, a := range alerts {
		e := top.resolve(a.Sign.Entity)
		_, explained := best.cause.Explains[a.Sign.Symptom]
		machine := slices.Contains(best.nodes, e.Node) && (e.Pod == "" || best.cause.Scope == "node")
		worker := slices.Contains(best.pods, e.Pod) && !differ(e.Namespace, v.view.scope.Namespace)
		if explained && (machine || worker) {
			out = append(out, a)
		}
	}
	return out
}

// A breakage holds the pods and nodes that verdicts found broken.
type breakage struct {
	pods  map[string][]string // pod name → namespaces in which a pod of this name is broken
	nodes map[string]bool
}

func (b breakage) none() bool { return len(b.pods)+len(b.nodes) == 0 }

func (b breakage) pod(namespace, name string) bool {
	return slices.ContainsFunc(b.pods[name], func(of string) bool { return !differ(of, namespace) })
}

func (b breakage) node(name string) bool { return b.nodes[name] }

func (b breakage) add(namespace, name string) { b.pods[name] = append(b.pods[name], namespace) }

// drop removes a pod.
func (b breakage) drop(namespace, name string) {
	b.pods[name] = slices.DeleteFunc(b.pods[name], func(of string) bool { return !differ(of, namespace) })
}

// broken returns the workers that verdicts found broken, the other pods of their engines, and the
// failed nodes. A cause of a whole pool breaks no single worker.
func (c *Catalog) broken(top *topology, by []state.Beside) breakage {
	out := breakage{pods: map[string][]string{}, nodes: map[string]bool{}}
	for _, b := range by {
		cause := c.byID[b.Cause]
		if cause == nil || !cause.local() {
			continue
		}
		for _, pod := range b.Scope.Pods {
			out.add(b.Scope.Namespace, pod)
			for _, mate := range top.mates(state.Entity{Namespace: b.Scope.Namespace, Pod: pod}) {
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
func (c *Catalog) told(in *state.Incident, top *topology, ev *state.Evidence) breakage {
	if len(ev.Beside) == 0 {
		return breakage{}
	}
	out, anyone := c.broken(top, ev.Beside), true
	for _, s := range in.Symptoms {
		for _, raw := range s.Entities {
			e := top.resolve(raw)
			anyone = anyone && e.Pod == "" && e.Node == ""
			out.drop(e.Namespace, e.Pod)
			delete(out.nodes, e.Node)
			for _, mate := range top.mates(e) {
				out.drop(mate.Namespace, mate.Pod)
			}
			if e.Pod == "" && e.Node != "" {
				for _, w := range top.nodes[e.Node] {
					out.drop(w.Namespace, w.Pod)
				}
			}
		}
	}
	if anyone {
		return breakage{}
	}
	return out
}

// notTold returns the entities that no other incident's verdict found broken.
func (v *view) notTold(hits []*group) []*group {
	if v.told.none() {
		return hits
	}
	return slices.DeleteFunc(slices.Clone(hits), func(g *group) bool {
		return g.pod != "" && v.told.pod(v.scope.Namespace, g.pod) || g.pod == "" && v.told.node(g.node)
	})
}
