package evidence

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/topology"
	"paramedic/state"
)

// ArrangeScope indexes the evidence of a scope, with workers of every role.
func ArrangeScope(in *state.Incident, scope state.Scope, ev *state.Evidence, cat *catalog.Catalog) *View {
	var workers []state.Worker
	if ev != nil {
		workers = ev.Workers
	}
	return Arrange(topology.NewTopology(workers), in, topology.PoolPhase{Scope: scope}, ev, cat)
}

// Arrange indexes the evidence of a pool or one of its phases, for the workers of the topology.
func Arrange(t *topology.Topology, in *state.Incident, of topology.PoolPhase, ev *state.Evidence, cat *catalog.Catalog) *View {
	scope, role := of.Scope, of.Role
	mem := memories.Get().(*scratch)
	v := &View{
		scope: scope, role: role, roles: map[string]string{}, facts: factsOf(cat, in), signals: mem.bySignal,
		numbered: make([]*Series, len(cat.SignalNumbers())), numbers: cat.SignalNumbers(),
		missing: mem.missing, cutShort: map[string]*Series{}, memory: mem, keys: mem.keys, engine: map[string]string{},
		ids: mem.byKey, gpusOf: mem.gpusOf, asked: map[string][]*Answers{}, expressions: cat.Expressions(),
	}
	v.whole = &Subject{view: v}
	if ev == nil {
		return v
	}
	v.facts.At = ev.At
	for _, m := range ev.Missing {
		v.missing[m.Signal] = m.Reason
	}
	c := censuses.Get().(*entityIndex)
	defer c.done()
	c.view, c.top = v, t
	ours := mem.names.Take(len(ev.Workers))[:0]
	serves := servingPods(ev)
	for _, w := range ev.Workers {
		e := state.Entity{Namespace: w.Namespace, Model: w.Model, Pool: w.Pool, Pod: w.Pod, Node: w.Node}
		if w.Pod != "" && c.top.InScope(e, scope) && !topology.Conflict(w.Role, role) {
			if w.Role != "" {
				v.roles[w.Pod] = w.Role
			}
			c.add("pod", Subject{key: w.Pod, pod: w.Pod, node: w.Node})
			ours = append(ours, w.Pod)
			if w.Group != "" && !serves[w.Namespace+"/"+w.EngineKey()] {
				v.engine[w.Pod] = w.Namespace + "/" + w.EngineKey() // the slash distinguishes it from a pod
			}
		}
	}
	v.listed, v.workers = ours, v.EnginesOf(ours)
	v.old = slices.ContainsFunc(ev.Old, func(pool state.Entity) bool { return c.top.InScope(pool, scope) })
	if xids := v.worstXidSamples(ev, c, cat); len(xids) > 0 {
		v.take(xids, "", ev.At, c, cat)
		v.take(ev.Samples, "gpu_xid", ev.At, c, cat)
	} else {
		v.take(ev.Samples, "", ev.At, c, cat)
	}
	v.arrange(c.found)
	v.countAtGateway()
	v.dropTruncated(cat)
	v.dropRare(cat)
	v.alerted = alerted(cat, in, c.top, ev.Workers)
	v.brokenElsewhere = brokenElsewhere(cat, in, c.top, ev)
	return v
}

// servingPods returns the groups of which several pods take requests, as with vLLM's hybrid load
// balancing. Each of these pods is an engine. In other groups only the leader is.
func servingPods(ev *state.Evidence) map[string]bool {
	group := map[[2]string]string{} // by namespace and pod
	for i := range ev.Workers {
		if w := &ev.Workers[i]; w.Group != "" {
			group[[2]string{w.Namespace, w.Pod}] = w.Namespace + "/" + w.EngineKey()
		}
	}
	if len(group) == 0 {
		return nil
	}
	first, out := map[string]string{}, map[string]bool{}
	for i := range ev.Samples {
		s := &ev.Samples[i]
		g := group[[2]string{s.Entity.Namespace, s.Entity.Pod}]
		if g == "" || s.Signal != "requests_running" {
			continue
		}
		if pod, seen := first[g]; seen && pod != s.Entity.Pod {
			out[g] = true
		}
		first[g] = s.Entity.Pod
	}
	return out
}

// take adds the samples in the view's scope, without those of one signal.
func (v *View) take(samples []state.Sample, but string, gathered time.Time, c *entityIndex, cat *catalog.Catalog) {
	signal, wanted, oldest := "", false, gathered.Add(-stale)
	for i := range samples {
		s := &samples[i]
		if s.Signal != signal {
			signal, wanted = s.Signal, cat.UsedSignals()[s.Signal] && s.Signal != but
		}
		if !wanted {
			continue
		}
		k := c.find(&s.Entity)
		if !k.inScope || c.ofAnotherRole(k.e) {
			continue
		}
		if s.At.Before(oldest) && !s.At.IsZero() {
			if _, ok := v.missing[s.Signal]; !ok {
				v.missing[s.Signal] = "stale since " + s.At.UTC().Format("15:04:05 UTC")
			}
			continue
		}
		v.sample(samples, i, c.counted(k))
	}
}

// alerted returns the workers, and their nodes, that the alerts are about. It returns nil if an
// alert's symptom is not of a single worker, or if it names no worker.
func alerted(c *catalog.Catalog, in *state.Incident, top *topology.Topology, workers []state.Worker) map[string]bool {
	out := map[string]bool{}
	engines := map[topology.Place]bool{}
	for _, s := range in.Symptoms {
		if !c.OwnSymptom(s.Symptom, s.Hints) || len(s.Entities) == 0 {
			return nil
		}
		for _, raw := range s.Entities {
			e := top.Resolve(raw)
			if e.Pod == "" {
				return nil
			}
			out[e.Pod], out[e.Node] = true, e.Node != ""
			if w := top.ByPod[topology.PlaceOf(e.Namespace, e.Pod)]; w != nil {
				engines[topology.PlaceOf(w.Namespace, w.EngineKey())] = true
			}
		}
	}
	for _, w := range workers {
		if engines[topology.PlaceOf(w.Namespace, w.EngineKey())] {
			out[w.Pod], out[w.Node] = true, w.Node != ""
		}
	}
	return out
}

// Elsewhere reports whether none of the entities is among those of the alerts.
func (v *View) Elsewhere(pods, nodes []string) bool {
	found := slices.Concat(pods, nodes)
	return len(v.alerted) > 0 && len(found) > 0 &&
		!slices.ContainsFunc(found, func(name string) bool { return v.alerted[name] })
}

// id returns the number of a key; -1 for an empty key.
func (v *View) id(key string) int {
	if key == "" {
		return -1
	}
	i, ok := v.ids[key]
	if !ok {
		i = len(v.keys)
		v.ids[key] = i
		v.keys = append(v.keys, key)
	}
	return i
}

// sample adds a sample of an entity. All samples of one signal are in the same slice.
func (v *View) sample(samples []state.Sample, i int, k *indexedEntity) {
	s := &samples[i]
	ser := v.recent
	if ser == nil || ser.signal != s.Signal {
		if ser = v.signals[s.Signal]; ser == nil {
			ser = &v.memory.series.Take(1)[0]
			*ser = Series{signal: s.Signal, index: len(v.signals), samples: samples}
			v.signals[s.Signal] = ser
			if n, ok := v.numbers[s.Signal]; ok {
				v.numbered[n] = ser
			}
		}
		v.recent = ser
	}
	if k.id < 0 {
		// If the scope has several pools, the highest value counts.
		if ser.pool == nil || s.Value > ser.pool.Value {
			ser.pool = s
		}
		return
	}
	if k.id >= len(ser.by) {
		by := v.memory.samples.Take(max(len(v.keys), 4*v.workers))
		copy(by, ser.by)
		ser.by = by
	}
	if have := ser.of(k.id); have == nil {
		ser.by[k.id] = int32(i + 1)
		ser.measured++
	} else if s.Value > have.Value {
		ser.by[k.id] = int32(i + 1)
	}
}

// arrange sorts the groups and computes the statistics of each signal.
func (v *View) arrange(groups []indexedSubject) {
	slices.SortStableFunc(groups, func(a, b indexedSubject) int { return cmp.Compare(a.key, b.key) })
	v.order = v.memory.ids.Take(len(groups))[:0]
	for _, of := range []*[]*Subject{&v.pods, &v.gpus, &v.nodes} {
		*of = v.memory.hits.Take(len(groups))[:0]
	}
	for i, g := range groups {
		g.id, g.podID, g.nodeID = v.id(g.key), v.id(g.pod), v.id(g.node)
		if i == 0 || g.key != groups[i-1].key {
			v.order = append(v.order, g.id)
		}
		switch g.kind {
		case "pod":
			v.pods = append(v.pods, g.Subject)
		case "gpu":
			v.gpus = append(v.gpus, g.Subject)
		case "node":
			v.nodes = append(v.nodes, g.Subject)
		}
	}
	if v.workers == 0 {
		v.workers = len(v.pods)
	}
	byKey := func(a, b int) int { return cmp.Compare(v.keys[a], v.keys[b]) }
	for _, gpus := range v.gpusOf {
		slices.SortFunc(gpus, byKey)
	}
	for _, s := range v.signals {
		s.summarise(v.order, &v.memory.wholes.Take(1)[0])
	}
}

// Role returns the role of the subject's worker; "" if the pool has no separate phases. For a scope
// it returns the role that all its workers have.
func (g *Subject) Role() string {
	if g.key != "" {
		return g.view.roles[g.pod]
	}
	only := ""
	for _, role := range g.view.roles {
		if only != "" && role != only {
			return ""
		}
		only = role
	}
	return only
}

// Groups returns the entities of a kind. If no worker reports by itself (a Dynamo frontend knows
// only the pool), the whole scope replaces the pods.
func (v *View) Groups(per string) []*Subject {
	switch per {
	case "pod":
		if len(v.pods) > 0 {
			return v.pods
		}
		return []*Subject{v.whole}
	case "gpu":
		return v.gpus
	case "node":
		return v.nodes
	}
	return []*Subject{v.whole}
}

func factsOf(c *catalog.Catalog, in *state.Incident) *condition.Facts {
	f := &condition.Facts{Symptoms: map[string]bool{}, Began: map[string]time.Time{}, Hints: map[string]string{}}
	for _, s := range in.Symptoms {
		f.Symptoms[string(s.Symptom)], f.Began[string(s.Symptom)] = true, s.First
		maps.Copy(f.Hints, s.Hints)
	}
	f.Xids = c.AlertedXids(f.Hints)
	if len(f.Xids) > 0 {
		f.XIDClass = c.XidTable()[f.Xids[0].Code].Class
	}
	return f
}
