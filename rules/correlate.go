package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// together is how long after its last alert an incident accepts alerts that its cause does not
// explain.
const together = time.Hour

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
func (c *Catalog) Correlate(s state.Sign, workers []state.Worker, open []*state.Incident, now time.Time) (
	state.IncidentID, bool) {
	top := newTopology(workers)
	e := top.resolve(s.Entity)
	var best *state.Incident
	bestLink, rivals := linkNone, 0
	for _, in := range byAge(open) {
		if !in.Open() || differ(in.Cluster, s.Entity.Cluster) || over(in, s.Symptom) {
			continue
		}
		l := c.closeness(s, e, in, top)
		if l == linkNone || l < linkGPU && c.apart(s, e, in) || !c.compatible(s, l, in, now) {
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
	return broke(in, e) && !broke(best, e) || held
}

// over reports whether all alerts of the incident are resolved and the symptom is neither one of
// its symptoms nor explained by its cause. The incident is held open only for returning alerts, so
// the sign is a new problem. If it is a late sign of the root, the root's incident absorbs this
// one.
func over(in *state.Incident, s state.Symptom) bool {
	had := func(sc state.SymptomCount) bool { return sc.Symptom == s }
	return in.Status == state.StatusMonitoring && in.Cause() != state.Unknown &&
		in.Cause() != state.BenignAlert && s != state.Unclassified &&
		!slices.Contains(in.Diagnosis.Explains, s) && !slices.ContainsFunc(in.Symptoms, had) && !aftermath(in, s)
}

// aftermath reports whether the symptom is typical of a restart or rollout, and a person may have
// restarted something to fix the incident.
func aftermath(in *state.Incident, s state.Symptom) bool {
	switch s {
	case "worker_down", "target_down", "rollout_stuck", "no_endpoints", "prefix_hit_low":
		return len(in.Actions) > 0 || !in.AckedAt.IsZero()
	}
	return false
}

// broke reports whether the incident's verdict found the entity's worker or node broken.
func broke(in *state.Incident, e state.Entity) bool {
	s := in.Diagnosis.Scope
	return in.Cause() != state.Unknown &&
		(slices.Contains(s.Nodes, e.Node) || slices.Contains(s.Pods, e.Pod) && !differ(s.Namespace, e.Namespace))
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
func (c *Catalog) closeness(s state.Sign, e state.Entity, in *state.Incident, top *topology) link {
	if g := s.Hints["group"]; g != "" {
		for _, sc := range in.Symptoms {
			if sc.Hints["group"] == g {
				return linkPod
			}
		}
	}
	best := linkNone
	about := false
	for _, sc := range in.Symptoms {
		for _, other := range sc.Entities {
			if !placeless(other) {
				about = true
			}
			best = max(best, near(e, top.resolve(other), top))
		}
	}
	for _, other := range scopeEntities(in) {
		about = about || !placeless(other)
		best = max(best, near(e, top.resolve(other), top))
	}
	if best == linkNone && c.symptoms[s.Symptom].Serving && c.serving(in) && (placeless(e) || !about) {
		// A rule that aggregates all labels away still belongs to the fleet's only serving
		// incident.
		if !differ(e.Namespace, in.Scope.Namespace) {
			best = linkFleet
			if e.Namespace != "" && e.Namespace == in.Scope.Namespace {
				best = linkSpace
			}
		}
	}
	return best
}

func (c *Catalog) serving(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return c.symptoms[s.Symptom].Serving })
}

// scopeEntities returns what the verdict found broken, which may be more than the alerts named.
func scopeEntities(in *state.Incident) []state.Entity {
	s := in.Scope
	base := state.Entity{Namespace: s.Namespace, Model: s.Model, Pool: s.Pool}
	out := []state.Entity{base}
	for _, n := range in.Diagnosis.Scope.Nodes {
		out = append(out, state.Entity{Node: n})
	}
	for _, p := range in.Diagnosis.Scope.Pods {
		e := base
		e.Pod = p
		out = append(out, e)
	}
	return out
}

// near returns the proximity of two resolved entities.
func near(a, b state.Entity, top *topology) link {
	if a.GPU != "" && a.GPU == b.GPU && a.Node == b.Node {
		return linkGPU
	}
	if samePod(a, b, top) {
		return linkPod
	}
	if l := machine(a, b, top); l != linkNone {
		return l
	}
	if differ(a.Namespace, b.Namespace) {
		return linkNone
	}
	sameModel := a.Model != "" && strings.EqualFold(a.Model, b.Model)
	if a.Pool != "" && b.Pool != "" {
		switch {
		case a.Pool == b.Pool && !(a.Model != "" && b.Model != "" && !sameModel):
			return linkPool
		case sameModel && !(top.knows(a) && top.knows(b)):
			return linkModel // a router's or InferencePool's name for the pool
		case slices.Contains(top.behind(a.Namespace, a.Pool), b.Pool) ||
			slices.Contains(top.behind(b.Namespace, b.Pool), a.Pool):
			return linkModel
		}
		return linkNone
	}
	if sameModel {
		return linkModel
	}
	return linkNone
}

// samePod reports whether two entities are of one pod, one address, or pods that are ranks of one
// engine.
func samePod(a, b state.Entity, top *topology) bool {
	if a.Instance != "" && a.Instance == b.Instance {
		return true
	}
	if a.Pod == "" || b.Pod == "" || differ(a.Namespace, b.Namespace) {
		return false
	}
	return a.Pod == b.Pod || slices.ContainsFunc(top.mates(a), func(w *state.Worker) bool { return w.Pod == b.Pod })
}

// machine links alerts about a node to the pods on it: one side has to be about the node itself.
func machine(a, b state.Entity, top *topology) link {
	for _, x := range [][2]state.Entity{{a, b}, {b, a}} {
		m, other := x[0], x[1]
		if m.Node == "" || m.Pod != "" && m.GPU == "" {
			continue
		}
		if top.reaches(other, m.Node) {
			return linkNode
		}
		if other.Pod != "" || other.Pool == "" {
			continue
		}
		for _, w := range top.nodes[m.Node] {
			if w.Pool == other.Pool && !differ(w.Namespace, other.Namespace) {
				return linkNode
			}
		}
	}
	return linkNone
}

func (t *topology) knows(e state.Entity) bool { return t.pools[e.Namespace+"/"+e.Pool] != nil }

// apart reports whether the sign is about another worker than those that the verdict found broken,
// and its symptom comes from the worker itself. It is then a second problem in the same pool. If
// the first turns out to cause it, the first incident absorbs it.
func (c *Catalog) apart(s state.Sign, e state.Entity, in *state.Incident) bool {
	cause, named := c.byID[in.Cause()]
	broken := in.Diagnosis.Scope
	if !named || !cause.local() || !c.own(s.Symptom, s.Hints) || s.Hints["group"] != "" || e.Pod == "" ||
		slices.Contains(broken.Pods, e.Pod) || slices.Contains(broken.Nodes, e.Node) {
		return false
	}
	if slices.ContainsFunc(in.Symptoms, func(sc state.SymptomCount) bool { return sc.Symptom == s.Symptom }) &&
		cause.Scope == "pod" {
		return false // the same problem on more workers
	}
	return len(broken.Pods) > 0 || len(broken.Nodes) > 0 && e.Node != ""
}

// own reports whether a symptom comes from the worker itself. A full KV cache may come from load,
// but a cache that is held while nothing runs comes from the worker.
func (c *Catalog) own(id state.Symptom, hints map[string]string) bool {
	return c.symptoms[id].Own || hints[heldIdle] != "" || hints["idle_kv"] != ""
}

// local reports whether the cause breaks single workers or nodes, not a pool.
func (c *Cause) local() bool { return c.Scope == "pod" || c.Scope == "gpu" || c.Scope == "node" }

// compatible reports whether one cause can explain the incident and the sign.
func (c *Catalog) compatible(s state.Sign, l link, in *state.Incident, now time.Time) bool {
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
	if !last.IsZero() && now.Sub(last) > together {
		return false
	}
	switch {
	case l == linkNode:
		return c.explains("machine", symptoms...)
	case !named && l >= linkModel:
		return true
	}
	return c.explains("", symptoms...)
}

// Absorbs reports whether the other incident is part of the root, a consequence of its cause. Their
// scopes must overlap. The other must have the same verdict, or its symptoms must be explained
// while its own verdict is missing or a known consequence. Two incidents with unknown causes are
// one if they are about one pool and began together.
func (c *Catalog) Absorbs(root, other *state.Incident) bool {
	if root.ID == other.ID || root.Cluster != other.Cluster || !root.Open() || !other.Open() {
		return false
	}
	cause, ok := c.byID[root.Cause()]
	if !ok {
		return bothUnknown(root, other)
	}
	if !c.overlaps(root, other) || c.elsewhere(root, other) || c.ofOthers(root, other) {
		return false
	}
	same := other.Cause() == root.Cause() // the evidence named the cause despite alerts that it does not explain
	led := cause.led(root, other)
	for _, s := range other.Symptoms {
		// The consequence's own verdict explains the symptoms that it causes.
		if !same && s.Symptom != state.Unclassified && !slices.Contains(root.Diagnosis.Explains, s.Symptom) &&
			!(led && slices.Contains(other.Diagnosis.Explains, s.Symptom)) {
			return false
		}
	}
	if same { // regardless of the alerts, since the evidence named the same cause
		return older(root, other)
	}
	if saysNothing(other) {
		return false
	}
	return other.Cause() == state.Unknown || other.Cause() == state.BenignAlert && cause.ID != state.BenignAlert || led
}

// led reports whether the cause is known to lead to the other incident's cause, and the times allow
// it. A problem that began over an hour before the root is not its consequence. The root's own
// alerts may be the later ones.
func (c *Cause) led(root, other *state.Incident) bool {
	return c.leadsTo(other.Cause(), root.Symptoms) && root.StartedAt.Sub(other.StartedAt) <= together
}

// leadsTo reports whether the cause, in an incident with these symptoms, has the other among its
// consequences.
func (c *Cause) leadsTo(other state.Cause, symptoms []state.SymptomCount) bool {
	return slices.Contains(c.LeadsTo, other) && (len(c.LeadsAfter) == 0 ||
		slices.ContainsFunc(symptoms, func(s state.SymptomCount) bool {
			return slices.Contains(c.LeadsAfter, s.Symptom)
		}))
}

// elsewhere reports whether the verdicts name two different causes of single workers, found on
// different workers.
func (c *Catalog) elsewhere(root, other *state.Incident) bool {
	a, b := c.byID[root.Cause()], c.byID[other.Cause()]
	if a == nil || b == nil || a == b || !a.local() || !b.local() {
		return false
	}
	return disjoint(root.Diagnosis.Scope.Pods, other.Diagnosis.Scope.Pods)
}

// ofOthers reports whether the other incident has no verdict yet and is about symptoms of single
// workers. Those workers must differ from the ones that the root's verdict found broken, and the
// symptoms must be new to the root's incident.
func (c *Catalog) ofOthers(root, other *state.Incident) bool {
	cause := c.byID[root.Cause()]
	if cause == nil || !cause.local() || other.Cause() != state.Unknown || len(other.Symptoms) == 0 {
		return false
	}
	for _, s := range other.Symptoms {
		seen := slices.ContainsFunc(root.Symptoms, func(o state.SymptomCount) bool { return o.Symptom == s.Symptom })
		if !c.own(s.Symptom, s.Hints) || s.Hints["group"] != "" || seen && cause.Scope == "pod" ||
			len(s.Entities) == 0 {
			return false
		}
	}
	return disjoint(root.Diagnosis.Scope.Pods, other.Scope.Pods) &&
		!slices.ContainsFunc(other.Scope.Nodes,
			func(n string) bool { return slices.Contains(root.Diagnosis.Scope.Nodes, n) })
}

// disjoint reports whether both lists name workers and have none in common.
func disjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(b, func(p string) bool { return slices.Contains(a, p) })
}

// bothUnknown reports whether two incidents without a verdict are about one pool. Alerts that use
// different names for a pool open one incident each until the evidence resolves the names. With
// resolved names, the older incident would have taken the younger's alerts.
func bothUnknown(root, other *state.Incident) bool {
	r, o := root.Diagnosis, other.Diagnosis
	if r.Cause != state.Unknown || o.Cause != state.Unknown || r.Scope.Pool == "" || r.Scope.Pool != o.Scope.Pool ||
		differ(r.Scope.Namespace, o.Scope.Namespace) {
		return false
	}
	if saysNothing(root) || saysNothing(other) {
		return false // the verdict assigned the only pool that exists; the alerts name none
	}
	last := root.OpenedAt
	for _, s := range root.Symptoms {
		if s.Last.After(last) {
			last = s.Last
		}
	}
	return older(root, other) && other.OpenedAt.Sub(last) <= together
}

// saysNothing reports whether an incident has an alert that is neither about inference nor names a
// place. Such incidents only take alerts of their own group.
func saysNothing(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms,
		func(s state.SymptomCount) bool { return s.Symptom == state.Unclassified && s.Hints["group"] != "" })
}

// older reports whether a opened before b; the ID decides between equal times. The older incident
// absorbs the younger one.
func older(a, b *state.Incident) bool {
	return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) < 0
}

// overlaps reports whether the scopes of two incidents overlap, using what the verdicts found. A
// fault of a GPU or node reaches every pod on the node.
func (c *Catalog) overlaps(root, other *state.Incident) bool {
	r, o := root.Scope, other.Scope
	cause := c.byID[root.Cause()]
	if cause.Scope == "gpu" || cause.Scope == "node" {
		for _, n := range slices.Concat(root.Diagnosis.Scope.Nodes, r.Nodes) {
			if slices.Contains(o.Nodes, n) {
				return true
			}
		}
		for _, p := range slices.Concat(root.Diagnosis.Scope.Pods, r.Pods) {
			if slices.Contains(o.Pods, p) && !differ(r.Namespace, o.Namespace) {
				return true
			}
		}
	}
	if differ(r.Namespace, o.Namespace) || differ(r.Pool, o.Pool) ||
		differ(strings.ToLower(r.Model), strings.ToLower(o.Model)) {
		return false
	}
	if r.Pool != "" && r.Pool == o.Pool || r.Model != "" && strings.EqualFold(r.Model, o.Model) {
		return true
	}
	if o.Pool == "" && o.Model == "" && len(o.Pods) == 0 && len(o.Nodes) == 0 {
		return c.serving(other) // it names no place, and the fleet has a serving incident
	}
	return slices.ContainsFunc(o.Pods, func(p string) bool { return slices.Contains(r.Pods, p) })
}
