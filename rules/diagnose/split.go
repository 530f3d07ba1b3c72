package diagnose

import (
	"maps"
	"slices"

	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

// maxSplitPlaces limits the workers and nodes outside the verdict that are checked one by one for a
// second incident. If more have alerts of their own, the problem belongs to the pool.
const maxSplitPlaces = 8

// SplitOff returns the alerts of a second problem in an incident. They are about a worker or node
// outside the verdict, and the evidence there names an independent cause. Alerts alone do not
// suffice: a neighbour's load fills a cache just as a leak does.
func SplitOff(c *catalog.Catalog, in *state.Incident, firing func() []*state.AlertRecord, ev *state.Evidence) []*state.AlertRecord {
	root := c.CauseTable()[in.Cause()]
	if root == nil || !root.Local() {
		return nil
	}
	top := topology.Topologies.Get().(*topology.Topology)
	defer top.Release()
	top.Learn(ev.Workers)
	verdict := state.Beside{Incident: in.ID, Cause: in.Cause(), Scope: in.Diagnosis.Scope}
	broken := evidence.Broken(c, top, []state.Beside{verdict})
	alerts := firing()
	places := alertsByPlace(top, alerts, broken)
	if len(places) > maxSplitPlaces {
		return nil
	}
	known := *ev
	known.Beside = append(slices.Clip(ev.Beside), verdict)
	for _, name := range slices.Sorted(maps.Keys(places)) {
		part := &state.Incident{Cluster: in.Cluster, Scope: state.Scope{Cluster: in.Scope.Cluster}}
		for _, a := range places[name] {
			part.Count(a, false, a.Alert.StartsAt)
		}
		second := bestVerdict(c, part, &known)
		moved := second.explainedAlerts(alerts, top)
		if second.named && second.ranked[0].cause.IsIndependentOf(root, in.Symptoms) && !second.overlaps(broken, top) &&
			len(moved) > 0 && len(moved) < len(alerts) {
			second.release()
			return moved
		}
		second.release()
	}
	return nil
}

// overlaps reports whether the first cause was found on something that is already broken, such as
// the node of a broken worker. It may then be the root, so it is not a second problem.
func (v verdict) overlaps(b evidence.BrokenSet, top *topology.Topology) bool {
	best := &v.ranked[0]
	return slices.ContainsFunc(best.pods, func(p string) bool { return b.Pod(v.view.Scope().Namespace, p) }) ||
		best.cause.Scope == "node" && slices.ContainsFunc(best.nodes,
			func(n string) bool { return b.Node(n) || hosts(top, n, b) })
}

// alertsByPlace groups alerts by the worker or node that they are about. It leaves out alerts about
// broken entities and alerts about no single entity.
func alertsByPlace(t *topology.Topology, alerts []*state.AlertRecord, b evidence.BrokenSet) map[string][]*state.AlertRecord {
	machines := map[string]bool{} // nodes with alerts of their own
	for _, a := range alerts {
		if e := t.Resolve(a.Sign.Entity); e.Pod == "" && e.Node != "" {
			machines[e.Node] = true
		}
	}
	out := map[string][]*state.AlertRecord{}
	for _, a := range alerts {
		e := t.Resolve(a.Sign.Entity)
		where := e.Pod
		if machines[e.Node] {
			where = e.Node
		}
		if where == "" || b.Pod(e.Namespace, e.Pod) || b.Node(e.Node) || e.Pod == "" && hosts(t, e.Node, b) {
			continue
		}
		out[where] = append(out[where], a)
	}
	return out
}

// hosts reports whether a broken worker runs on the node.
func hosts(t *topology.Topology, node string, b evidence.BrokenSet) bool {
	return slices.ContainsFunc(t.Nodes[node], func(w *state.Worker) bool { return b.Pod(w.Namespace, w.Pod) })
}

// explainedAlerts returns the alerts about the broken entities that the first cause explains.
func (v verdict) explainedAlerts(alerts []*state.AlertRecord, top *topology.Topology) []*state.AlertRecord {
	if len(v.ranked) == 0 {
		return nil
	}
	best := &v.ranked[0]
	var out []*state.AlertRecord
	for _, a := range alerts {
		e := top.Resolve(a.Sign.Entity)
		_, explained := best.cause.Explains[a.Sign.Symptom]
		machine := slices.Contains(best.nodes, e.Node) && (e.Pod == "" || best.cause.Scope == "node")
		worker := slices.Contains(best.pods, e.Pod) && !topology.Conflict(e.Namespace, v.view.Scope().Namespace)
		if explained && (machine || worker) {
			out = append(out, a)
		}
	}
	return out
}
