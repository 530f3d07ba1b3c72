package rules

import (
	"maps"
	"slices"

	"paramedic/state"
)

// mostAside is how many workers and machines, beside those that a verdict found broken, may have alerts of their own and still be looked at one
// by one. What more of them have is the pool's.
const mostAside = 8

// Aside finds the alerts of a second trouble in an incident: of a worker or a machine that the verdict does not name, where what is seen
// there has a name of its own. Alerts alone do not tell: a neighbour's load fills a cache as well as a leak does.
func (c *Catalog) Aside(in *state.Incident, alerts []*state.AlertRecord, ev *state.Evidence) []*state.AlertRecord {
	root := c.byID[in.Cause()]
	if root == nil || !root.local() {
		return nil
	}
	top := topologies.Get().(*topology)
	defer top.release()
	top.learn(ev.Workers)
	verdict := state.Beside{Incident: in.ID, Cause: in.Cause(), Scope: in.Diagnosis.Scope}
	places := top.aside(alerts, c.broken(top, []state.Beside{verdict}))
	if len(places) > mostAside {
		return nil
	}
	known := *ev
	known.Beside = append(slices.Clip(ev.Beside), verdict)
	for _, name := range slices.Sorted(maps.Keys(places)) {
		part := &state.Incident{Cluster: in.Cluster, Scope: state.Scope{Cluster: in.Scope.Cluster}}
		for _, a := range places[name] {
			attach(part, a.Sign, a.Alert.Name(), a.Alert.StartsAt)
		}
		second := c.verdict(part, &known)
		moved := second.tellsOf(alerts, top)
		if second.named && second.ranked[0].cause.besides(root, in.Symptoms) && len(moved) > 0 && len(moved) < len(alerts) {
			second.view.release()
			return moved
		}
		second.view.release()
	}
	return nil
}

// besides says that the cause breaks single workers, and that the root is not known to bring it about.
func (c *Cause) besides(root *Cause, symptoms []state.SymptomCount) bool {
	return c != root && c.local() && !root.leadsTo(c.ID, symptoms)
}

// aside sorts alerts by the worker or machine that they are about, without those that are about what is broken, and those about no single one.
func (t *topology) aside(alerts []*state.AlertRecord, broken map[string]bool) map[string][]*state.AlertRecord {
	machines := map[string]bool{} // that have alerts themselves
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
		if where == "" || broken[e.Pod] || broken[e.Node] || e.Pod == "" && t.hosts(e.Node, broken) {
			continue
		}
		out[where] = append(out[where], a)
	}
	return out
}

// hosts says whether one of the workers is on the machine.
func (t *topology) hosts(node string, workers map[string]bool) bool {
	return slices.ContainsFunc(t.nodes[node], func(w *state.Worker) bool { return workers[w.Pod] })
}

// tellsOf are those of the alerts that the first cause explains, about what it was found on.
func (v verdict) tellsOf(alerts []*state.AlertRecord, top *topology) []*state.AlertRecord {
	if len(v.ranked) == 0 {
		return nil
	}
	best := &v.ranked[0]
	var out []*state.AlertRecord
	for _, a := range alerts {
		e := top.resolve(a.Sign.Entity)
		_, explained := best.cause.Explains[a.Sign.Symptom]
		machine := contains(best.nodes, e.Node) && (e.Pod == "" || best.cause.Scope == "node")
		if explained && (machine || contains(best.pods, e.Pod)) {
			out = append(out, a)
		}
	}
	return out
}

// broken are the workers that verdicts found broken, with their engines' other pods, and the machines that failed. What is the trouble of a
// whole pool breaks none by itself.
func (c *Catalog) broken(top *topology, by []state.Beside) map[string]bool {
	out := map[string]bool{}
	for _, b := range by {
		cause := c.byID[b.Cause]
		if cause == nil || !cause.local() {
			continue
		}
		for _, pod := range b.Scope.Pods {
			out[pod] = true
			for _, mate := range top.mates(state.Entity{Namespace: b.Scope.Namespace, Pod: pod}) {
				out[mate.Pod] = true
			}
		}
		for _, node := range b.Scope.Nodes {
			out[node] = cause.Scope == "node"
		}
	}
	return out
}

// told are the workers and machines that other incidents' verdicts found broken. What an alert of this one is about is not among them: the
// other may be a consequence.
func (c *Catalog) told(in *state.Incident, top *topology, ev *state.Evidence) map[string]bool {
	if len(ev.Beside) == 0 {
		return nil
	}
	out := c.broken(top, ev.Beside)
	for _, s := range in.Symptoms {
		for _, raw := range s.Entities {
			e := top.resolve(raw)
			delete(out, e.Pod)
			delete(out, e.Node)
			for _, mate := range top.mates(e) {
				delete(out, mate.Pod)
			}
			if e.Pod == "" && e.Node != "" {
				for _, w := range top.nodes[e.Node] {
					delete(out, w.Pod)
				}
			}
		}
	}
	return out
}

// notTold are those of the entities whose trouble is not told elsewhere.
func (v *view) notTold(hits []*group) []*group {
	if len(v.told) == 0 {
		return hits
	}
	return slices.DeleteFunc(slices.Clone(hits), func(g *group) bool { return v.told[g.pod] || g.pod == "" && v.told[g.node] })
}
