package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// together is how long after its last alert an incident takes others that its cause is not known to
// explain.
const together = time.Hour

// A link is how close two entities are. Higher is closer.
type link int

const (
	linkNone  link = iota
	linkFleet      // both are about serving, at least one names no place
	linkSpace      // one names no more than their namespace
	linkModel      // the same model, one names no pool
	linkNode       // one is the machine that the other has a pod on
	linkPool
	linkPod
	linkGPU
)

// Correlate chooses the open incident that a sign belongs to. It is the closest one in the topology
// whose symptoms, with the new one, a single cause can explain. Where the sign is too vague to
// choose between several, it belongs to none of them.
func (c *Catalog) Correlate(s state.Sign, workers []state.Worker, open []*state.Incident, now time.Time) (state.IncidentID, bool) {
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
		case l > bestLink, l == bestLink && (broke(in, e) && !broke(best, e) || best.Status == state.StatusMonitoring && in.Status != state.StatusMonitoring):
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

// over says that the incident's alerts are gone, and that the symptom is none that it had or that
// its cause leads to: it is held open for what comes back, and this is another trouble. A root of
// it that shows itself so late absorbs it.
func over(in *state.Incident, s state.Symptom) bool {
	had := func(sc state.SymptomCount) bool { return sc.Symptom == s }
	return in.Status == state.StatusMonitoring && in.Cause() != state.Unknown && in.Cause() != state.BenignAlert && s != state.Unclassified &&
		!slices.Contains(in.Diagnosis.Explains, s) && !slices.ContainsFunc(in.Symptoms, had) && !aftermath(in, s)
}

// aftermath says that the symptom is what a restart or a rollout looks like, and that somebody may
// have mended the incident by one.
func aftermath(in *state.Incident, s state.Symptom) bool {
	switch s {
	case "worker_down", "target_down", "rollout_stuck", "no_endpoints", "prefix_hit_low":
		return len(in.Actions) > 0 || !in.AckedAt.IsZero()
	}
	return false
}

// broke says that the incident's verdict found the entity's worker or machine broken.
func broke(in *state.Incident, e state.Entity) bool {
	s := in.Diagnosis.Scope
	return in.Cause() != state.Unknown && (slices.Contains(s.Nodes, e.Node) || slices.Contains(s.Pods, e.Pod) && !differ(s.Namespace, e.Namespace))
}

// byAge orders incidents so that the answer does not depend on the order in which they were given.
func byAge(open []*state.Incident) []*state.Incident {
	out := slices.Clone(open)
	slices.SortFunc(out, func(a, b *state.Incident) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// closeness is how close the sign is to the nearest thing that the incident is about.
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
		// Rules that aggregate everything away still speak of the fleet's one trouble, if it has
		// one.
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

// scopeEntities are what the verdict says is broken, which may be more than the alerts named.
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

// near is how close two resolved entities are.
func near(a, b state.Entity, top *topology) link {
	if a.GPU != "" && a.GPU == b.GPU && a.Node == b.Node {
		return linkGPU
	}
	sameSpace := !differ(a.Namespace, b.Namespace)
	if a.Pod != "" && a.Pod == b.Pod && sameSpace {
		return linkPod
	}
	if a.Instance != "" && a.Instance == b.Instance {
		return linkPod
	}
	if a.Pod != "" && b.Pod != "" && sameSpace && slices.ContainsFunc(top.mates(a), func(w *state.Worker) bool { return w.Pod == b.Pod }) {
		return linkPod // ranks of one engine
	}
	if l := machine(a, b, top); l != linkNone {
		return l
	}
	if !sameSpace {
		return linkNone
	}
	sameModel := a.Model != "" && strings.EqualFold(a.Model, b.Model)
	if a.Pool != "" && b.Pool != "" {
		switch {
		case a.Pool == b.Pool && !(a.Model != "" && b.Model != "" && !sameModel):
			return linkPool
		case sameModel && !(top.knows(a) && top.knows(b)):
			return linkModel // a router's or InferencePool's name for it
		case slices.Contains(top.behind(a.Namespace, a.Pool), b.Pool) || slices.Contains(top.behind(b.Namespace, b.Pool), a.Pool):
			return linkModel
		}
		return linkNone
	}
	if sameModel {
		return linkModel
	}
	return linkNone
}

// machine links what happens on a node to the pods there: one side has to be about the machine
// itself.
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

// apart says that the sign is about another worker than those that the incident's verdict found
// broken, and about something that happens to a worker by itself: a second trouble in the same
// pool. If the first turns out to be behind it after all, it absorbs it.
func (c *Catalog) apart(s state.Sign, e state.Entity, in *state.Incident) bool {
	cause, named := c.byID[in.Cause()]
	broken := in.Diagnosis.Scope
	if !named || !cause.local() || !c.own(s.Symptom, s.Hints) || s.Hints["group"] != "" || e.Pod == "" ||
		slices.Contains(broken.Pods, e.Pod) || slices.Contains(broken.Nodes, e.Node) {
		return false
	}
	if slices.ContainsFunc(in.Symptoms, func(sc state.SymptomCount) bool { return sc.Symptom == s.Symptom }) && cause.Scope == "pod" {
		return false // the same happens to more of them
	}
	return len(broken.Pods) > 0 || len(broken.Nodes) > 0 && e.Node != ""
}

// own says that a symptom is of what a worker has by itself. KV cache that is held while nothing
// runs is the worker's, as a full one need not be.
func (c *Catalog) own(id state.Symptom, hints map[string]string) bool {
	return c.symptoms[id].Own || hints[heldIdle] != "" || hints["idle_kv"] != ""
}

// local says that the cause breaks single workers or machines, and not a pool.
func (c *Cause) local() bool { return c.Scope == "pod" || c.Scope == "gpu" || c.Scope == "node" }

// compatible says whether one cause can stand behind the incident and the sign.
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

// Absorbs says whether the other incident is a part of the root. It is where all of it is a
// consequence of the root's cause: its scope overlaps, and it has the same verdict, or its symptoms
// are explained and it has no verdict of its own or one that the root's cause is known to lead to.
// Two whose cause is unknown are one where they are about one pool and began together.
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
	same := other.Cause() == root.Cause() // named in spite of alerts that it does not explain
	led := cause.led(root, other)
	for _, s := range other.Symptoms {
		// What a consequence does is explained where the consequence is.
		if !same && s.Symptom != state.Unclassified && !slices.Contains(root.Diagnosis.Explains, s.Symptom) && !(led && slices.Contains(other.Diagnosis.Explains, s.Symptom)) {
			return false
		}
	}
	if same { // whatever its alerts say: the evidence has named it
		return older(root, other)
	}
	if saysNothing(other) {
		return false
	}
	return other.Cause() == state.Unknown || other.Cause() == state.BenignAlert && cause.ID != state.BenignAlert || led
}

// led says that the cause is known to lead to the other incident's, and can have by now: what began
// long before the root is not its consequence. The root's own alerts may well be the later ones.
func (c *Cause) led(root, other *state.Incident) bool {
	return c.leadsTo(other.Cause(), root.Symptoms) && root.StartedAt.Sub(other.StartedAt) <= together
}

// leadsTo says that the cause, where it shows in these symptoms, has the other among its
// consequences.
func (c *Cause) leadsTo(other state.Cause, symptoms []state.SymptomCount) bool {
	return slices.Contains(c.LeadsTo, other) && (len(c.LeadsAfter) == 0 ||
		slices.ContainsFunc(symptoms, func(s state.SymptomCount) bool { return slices.Contains(c.LeadsAfter, s.Symptom) }))
}

// elsewhere says that two different causes, each of single workers, were found, and on different
// ones.
func (c *Catalog) elsewhere(root, other *state.Incident) bool {
	a, b := c.byID[root.Cause()], c.byID[other.Cause()]
	if a == nil || b == nil || a == b || !a.local() || !b.local() {
		return false
	}
	return disjoint(root.Diagnosis.Scope.Pods, other.Diagnosis.Scope.Pods)
}

// ofOthers says that the other incident has no name yet and is about what happens to workers by
// themselves, on others than those that the root's verdict found broken, where it was not seen.
func (c *Catalog) ofOthers(root, other *state.Incident) bool {
	cause := c.byID[root.Cause()]
	if cause == nil || !cause.local() || other.Cause() != state.Unknown || len(other.Symptoms) == 0 {
		return false
	}
	for _, s := range other.Symptoms {
		seen := slices.ContainsFunc(root.Symptoms, func(o state.SymptomCount) bool { return o.Symptom == s.Symptom })
		if !c.own(s.Symptom, s.Hints) || s.Hints["group"] != "" || seen && cause.Scope == "pod" || len(s.Entities) == 0 {
			return false
		}
	}
	return disjoint(root.Diagnosis.Scope.Pods, other.Scope.Pods) && !slices.ContainsFunc(other.Scope.Nodes, func(n string) bool { return slices.Contains(root.Diagnosis.Scope.Nodes, n) })
}

// disjoint says that both name workers, and none is the same.
func disjoint(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(b, func(p string) bool { return slices.Contains(a, p) })
}

// bothUnknown says that two incidents are about one pool and neither has a name. Alerts that call a
// pool by different names open one each before the evidence shows whose names they are; had that
// been known, the older would have taken the younger's.
func bothUnknown(root, other *state.Incident) bool {
	r, o := root.Diagnosis, other.Diagnosis
	if r.Cause != state.Unknown || o.Cause != state.Unknown || r.Scope.Pool == "" || r.Scope.Pool != o.Scope.Pool || differ(r.Scope.Namespace, o.Scope.Namespace) {
		return false
	}
	if saysNothing(root) || saysNothing(other) {
		return false // the verdict gave it the only pool that there is; its alerts name none
	}
	last := root.OpenedAt
	for _, s := range root.Symptoms {
		if s.Last.After(last) {
			last = s.Last
		}
	}
	return older(root, other) && other.OpenedAt.Sub(last) <= together
}

// saysNothing says that an incident has an alert that neither speaks of inference nor names a
// place: it stays with its own kind.
func saysNothing(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return s.Symptom == state.Unclassified && s.Hints["group"] != "" })
}

// older says which of two incidents of one trouble stays.
func older(a, b *state.Incident) bool {
	return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) < 0
}

// overlaps compares scopes by what the verdict found; a machine's fault reaches whoever is on the
// machine.
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
	if differ(r.Namespace, o.Namespace) || differ(r.Pool, o.Pool) || differ(strings.ToLower(r.Model), strings.ToLower(o.Model)) {
		return false
	}
	if r.Pool != "" && r.Pool == o.Pool || r.Model != "" && strings.EqualFold(r.Model, o.Model) {
		return true
	}
	if o.Pool == "" && o.Model == "" && len(o.Pods) == 0 && len(o.Nodes) == 0 {
		return c.serving(other) // it names no place, and the fleet has this trouble
	}
	return slices.ContainsFunc(o.Pods, func(p string) bool { return slices.Contains(r.Pods, p) })
}
