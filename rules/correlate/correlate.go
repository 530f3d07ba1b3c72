package correlate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/topology"
	"paramedic/state"
)

// joinWindow is the time after its last alert during which an incident accepts alerts that its
// cause does not explain.
const joinWindow = time.Hour

// A link is the proximity of two entities. Higher is closer.
type link int

const (
	linkNone  link = iota
	linkFleet      // both are about serving, and at least one names no place
	linkSpace      // one names only its namespace
	linkModel      // the same model, and one names no pool
	linkNode       // one is the node on which the other has a pod
	linkPool
	linkPod
	linkGPU
)

// Correlate returns the open incident that a sign belongs to. It chooses the closest one in the
// topology for which a single cause can explain all symptoms with the new one. If the sign is too
// vague to choose between several, it belongs to none of them.
func Correlate(c *catalog.Catalog, s state.Sign, workers []state.Worker, open []*state.Incident, now time.Time) (
	state.IncidentID, bool) {
	top := topology.Topologies.Get().(*topology.Topology)
	defer top.Release()
	top.Learn(workers)
	e := top.Resolve(s.Entity)
	var best *state.Incident
	bestLink, rivals := linkNone, 0
	for _, in := range byAge(open) {
		if !in.Open() || topology.Conflict(in.Cluster, s.Entity.Cluster) || heldForReturn(in, s.Symptom) {
			continue
		}
		l := closeness(c, s, e, in, top)
		if l == linkNone || l < linkGPU && onOtherWorker(c, s, e, in) || !compatible(c, s, l, in, now) {
			continue
		}
		switch {
		case l > bestLink, l == bestLink && preferred(in, best, e):
			best, bestLink, rivals = in, l, 0
		case l == bestLink:
			rivals++
		}
	}
	if best == nil || rivals > 0 && bestLink <= linkSpace {
		return "", false
	}
	return best.ID, true
}

// preferred reports whether one of two equally close incidents is the better choice: its verdict
// found the entity broken, or it is not held open like the other.
func preferred(in, best *state.Incident, e state.Entity) bool {
	held := best.Status == state.StatusMonitoring && in.Status != state.StatusMonitoring
	return foundBroken(in, e) && !foundBroken(best, e) || held
}

// heldForReturn reports whether all alerts of the incident are resolved and the symptom is neither
// one of its symptoms nor explained by its cause. The incident is held open only for returning
// alerts, so the sign is a new problem. If it is a late sign of the root, the root's incident
// absorbs this one.
func heldForReturn(in *state.Incident, s state.Symptom) bool {
	had := func(sc state.SymptomCount) bool { return sc.Symptom == s }
	return in.Status == state.StatusMonitoring && in.Cause() != state.Unknown &&
		in.Cause() != state.BenignAlert && s != state.Unclassified &&
		!slices.Contains(in.Diagnosis.Explains, s) && !slices.ContainsFunc(in.Symptoms, had) && !restartSymptom(in, s)
}

// restartSymptom reports whether the symptom is typical of a restart or rollout, and a person may
// have restarted something to fix the incident.
func restartSymptom(in *state.Incident, s state.Symptom) bool {
	switch s {
	case "worker_down", "target_down", "rollout_stuck", "no_endpoints", "prefix_hit_low":
		return len(in.Actions) > 0 || !in.AckedAt.IsZero()
	}
	return false
}

// foundBroken reports whether the incident's verdict found the entity's worker or node broken.
func foundBroken(in *state.Incident, e state.Entity) bool {
	s := in.Diagnosis.Scope
	return in.Cause() != state.Unknown &&
		(slices.Contains(s.Nodes, e.Node) || slices.Contains(s.Pods, e.Pod) && !topology.Conflict(s.Namespace, e.Namespace))
}

// byAge sorts incidents, so that the answer does not depend on the order of the arguments.
func byAge(open []*state.Incident) []*state.Incident {
	out := slices.Clone(open)
	slices.SortFunc(out, func(a, b *state.Incident) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// closeness returns the proximity of the sign to the nearest entity of the incident.
func closeness(c *catalog.Catalog, s state.Sign, e state.Entity, in *state.Incident, top *topology.Topology) link {
	if g := s.Hints["group"]; g != "" {
		for _, sc := range in.Symptoms {
			if sc.Hints["group"] == g {
				return linkPod
			}
		}
	}
	best := linkNone
	about, named := false, !nameless(e)
	compare := func(other state.Entity) {
		if nameless(other) && other.Job == "" && other.Service == "" {
			return
		}
		about = about || !topology.Placeless(other)
		if named {
			resolved := top.Resolve(other)
			best = max(best, proximity(&e, &resolved, top))
		}
	}
	for _, sc := range in.Symptoms {
		for _, other := range sc.Entities {
			compare(other)
			if sc.Symptom == s.Symptom && ofOneJob(e, other) {
				best = max(best, linkPool)
			}
		}
	}
	eachBroken(in, compare)
	if best == linkNone && (topology.Placeless(e) || !about) && c.SymptomTable()[s.Symptom].Serving && serving(c, in) {
		// A rule that aggregates all labels away still belongs to the fleet's only serving
		// incident.
		if !topology.Conflict(e.Namespace, in.Scope.Namespace) {
			best = linkFleet
			if e.Namespace != "" && e.Namespace == in.Scope.Namespace {
				best = linkSpace
			}
		}
	}
	return best
}

func serving(c *catalog.Catalog, in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return c.SymptomTable()[s.Symptom].Serving })
}

// nameless reports whether the entity has no name that links it to another one.
func nameless(e state.Entity) bool { return topology.Placeless(e) && e.Instance == "" }

// eachBroken calls f with what the verdict found broken, which may be more than the alerts named.
func eachBroken(in *state.Incident, f func(state.Entity)) {
	s := in.Scope
	base := state.Entity{Namespace: s.Namespace, Model: s.Model, Pool: s.Pool}
	f(base)
	for _, n := range in.Diagnosis.Scope.Nodes {
		f(state.Entity{Node: n})
	}
	for _, p := range in.Diagnosis.Scope.Pods {
		e := base
		e.Pod = p
		f(e)
	}
}

// proximity returns the proximity of two resolved entities.
func proximity(a, b *state.Entity, top *topology.Topology) link {
	if a.GPU != "" && a.GPU == b.GPU && a.Node == b.Node {
		return linkGPU
	}
	if samePod(a, b, top) {
		return linkPod
	}
	if l := machine(a, b, top); l != linkNone {
		return l
	}
	if topology.Conflict(a.Namespace, b.Namespace) {
		return linkNone
	}
	sameModel := a.Model != "" && strings.EqualFold(a.Model, b.Model)
	if a.Pool != "" && b.Pool != "" {
		switch {
		case a.Pool == b.Pool && !(a.Model != "" && b.Model != "" && !sameModel):
			return linkPool
		case sameModel && !(knows(top, a) && knows(top, b)):
			return linkModel // a router's or InferencePool's name for the pool
		case slices.Contains(top.Behind(a.Namespace, a.Pool), b.Pool) ||
			slices.Contains(top.Behind(b.Namespace, b.Pool), a.Pool):
			return linkModel
		}
		return linkNone
	}
	if sameModel {
		return linkModel
	}
	return linkNone
}

// ofOneJob reports whether both entities are targets of one scrape job, and neither names another
// place than its address.
func ofOneJob(a, b state.Entity) bool {
	return a.Job != "" && a.Job == b.Job && topology.Placeless(a) && topology.Placeless(b) &&
		!topology.Conflict(a.Service, b.Service) && !topology.Conflict(a.Namespace, b.Namespace)
}

// samePod reports whether two entities are of one pod, one address, or pods that are ranks of one
// engine.
func samePod(a, b *state.Entity, top *topology.Topology) bool {
	if a.Instance != "" && a.Instance == b.Instance {
		return true
	}
	if a.Pod == "" || b.Pod == "" || topology.Conflict(a.Namespace, b.Namespace) {
		return false
	}
	return a.Pod == b.Pod || slices.ContainsFunc(top.Mates(*a), func(w *state.Worker) bool { return w.Pod == b.Pod })
}

// machine links alerts about a node to the pods on it: one side has to be about the node itself.
func machine(a, b *state.Entity, top *topology.Topology) link {
	if onMachine(a, b, top) || onMachine(b, a, top) {
		return linkNode
	}
	return linkNone
}

// onMachine reports whether m is a node, or a GPU of one, and the other entity has a pod on it.
func onMachine(m, other *state.Entity, top *topology.Topology) bool {
	if m.Node == "" || m.Pod != "" && m.GPU == "" {
		return false
	}
	if top.Reaches(*other, m.Node) {
		return true
	}
	return other.Pod == "" && other.Pool != "" && slices.ContainsFunc(top.Nodes[m.Node], func(w *state.Worker) bool {
		return w.Pool == other.Pool && !topology.Conflict(w.Namespace, other.Namespace)
	})
}

func knows(t *topology.Topology, e *state.Entity) bool {
	return len(t.Pools) > 0 && t.Pools[e.Namespace+"/"+e.Pool] != nil
}

// onOtherWorker reports whether the sign is about another worker than those that the verdict found
// broken, and its symptom comes from the worker itself. It is then a second problem in the same
// pool. If the first turns out to cause it, the first incident absorbs it.
func onOtherWorker(c *catalog.Catalog, s state.Sign, e state.Entity, in *state.Incident) bool {
	cause, named := c.CauseTable()[in.Cause()]
	broken := in.Diagnosis.Scope
	if !named || !cause.Local() || !c.OwnSymptom(s.Symptom, s.Hints) || s.Hints["group"] != "" || e.Pod == "" ||
		slices.Contains(broken.Pods, e.Pod) || slices.Contains(broken.Nodes, e.Node) {
		return false
	}
	if slices.ContainsFunc(in.Symptoms, func(sc state.SymptomCount) bool { return sc.Symptom == s.Symptom }) &&
		cause.Scope == "pod" {
		return false // the same problem on more workers
	}
	return len(broken.Pods) > 0 || len(broken.Nodes) > 0 && e.Node != ""
}

// compatible reports whether one cause can explain the incident and the sign.
func compatible(c *catalog.Catalog, s state.Sign, l link, in *state.Incident, now time.Time) bool {
	if s.Symptom == state.Unclassified {
		return l >= linkNode
	}
	symptoms := make([]state.Symptom, 0, len(in.Symptoms)+1)
	var last time.Time
	for _, sc := range in.Symptoms {
		if sc.Symptom == s.Symptom && l >= linkPool {
			return true
		}
		symptoms = append(symptoms, sc.Symptom)
		if sc.Last.After(last) {
			last = sc.Last
		}
	}
	symptoms = append(symptoms, s.Symptom)
	named := in.Cause() != state.Unknown && in.Cause() != state.BenignAlert
	if named && slices.Contains(in.Diagnosis.Explains, s.Symptom) && l >= linkModel {
		return true
	}
	if !last.IsZero() && now.Sub(last) > joinWindow {
		return false
	}
	switch {
	case l == linkNode:
		return c.Explains("machine", symptoms...)
	case !named && l >= linkModel:
		return true
	}
	return c.Explains("", symptoms...)
}

// bothUnknown reports whether two incidents without a verdict are about one pool, or one model of
// unknown pool. Alerts that use
// different names for a pool open one incident each until the evidence resolves the names. With
// resolved names, the older incident would have taken the younger's alerts.
func bothUnknown(root, other *state.Incident) bool {
	r, o := root.Diagnosis, other.Diagnosis
	// Workers that have only an address belong to no known pool.
	same := r.Scope.Pool != "" || r.Scope.Model != "" && strings.EqualFold(r.Scope.Model, o.Scope.Model)
	if r.Cause != state.Unknown || o.Cause != state.Unknown || !same || r.Scope.Pool != o.Scope.Pool ||
		topology.Conflict(r.Scope.Namespace, o.Scope.Namespace) {
		return false
	}
	if unplaced(root) || unplaced(other) {
		return false // the verdict assigned the only pool that exists; the alerts name none
	}
	last := root.OpenedAt
	for _, s := range root.Symptoms {
		if s.Last.After(last) {
			last = s.Last
		}
	}
	return older(root, other) && other.OpenedAt.Sub(last) <= joinWindow
}

// unplaced reports whether an incident has an alert that is neither about inference nor names a
// place. Such incidents only take alerts of their own group.
func unplaced(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms,
		func(s state.SymptomCount) bool { return s.Symptom == state.Unclassified && s.Hints["group"] != "" })
}

// older reports whether a opened before b; the ID decides between equal times. The older incident
// absorbs the younger one.
func older(a, b *state.Incident) bool {
	return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) < 0
}

// sharesRules reports whether all rules of the other incident's alerts are rules of the root's.
func sharesRules(root, other *state.Incident) bool {
	for _, s := range other.Symptoms {
		of := slices.IndexFunc(root.Symptoms, func(r state.SymptomCount) bool { return r.Symptom == s.Symptom })
		if of < 0 || slices.ContainsFunc(s.Rules, func(rule string) bool { return !slices.Contains(root.Symptoms[of].Rules, rule) }) {
			return false
		}
	}
	return len(other.Symptoms) > 0
}

// overlaps reports whether the scopes of two incidents overlap, using what the verdicts found. A
// fault of a GPU or node reaches every pod on the node.
func overlaps(c *catalog.Catalog, root, other *state.Incident) bool {
	r, o := root.Scope, other.Scope
	cause := c.CauseTable()[root.Cause()]
	if cause.Scope == "gpu" || cause.Scope == "node" {
		for _, n := range slices.Concat(root.Diagnosis.Scope.Nodes, r.Nodes) {
			if slices.Contains(o.Nodes, n) {
				return true
			}
		}
		for _, p := range slices.Concat(root.Diagnosis.Scope.Pods, r.Pods) {
			if slices.Contains(o.Pods, p) && !topology.Conflict(r.Namespace, o.Namespace) {
				return true
			}
		}
	}
	if root.ShowsIn(o.Namespace, o.Pool) && len(root.Pools) > 1 {
		return true
	}
	if topology.Conflict(r.Namespace, o.Namespace) || topology.Conflict(r.Pool, o.Pool) ||
		topology.Conflict(strings.ToLower(r.Model), strings.ToLower(o.Model)) {
		return false
	}
	if root.Cause() == state.BenignAlert && other.Cause() == state.BenignAlert && sharesRules(root, other) {
		return true // one rule fires on several nodes: the rule is at fault, wherever it fires
	}
	if r.Pool != "" && r.Pool == o.Pool || r.Model != "" && strings.EqualFold(r.Model, o.Model) {
		return true
	}
	if o.Pool == "" && o.Model == "" && len(o.Pods) == 0 && len(o.Nodes) == 0 {
		// It names no place, and the fleet has a serving incident that did not begin long after it.
		return serving(c, other) && root.StartedAt.Sub(other.StartedAt) <= joinWindow
	}
	return slices.ContainsFunc(o.Pods, func(p string) bool { return slices.Contains(r.Pods, p) })
}
