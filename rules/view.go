package rules

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"paramedic/state"
)

type activation = cel.Activation

// stale is the age, relative to the time of gathering, from which a sample is ignored.
const stale = 10 * time.Minute

// A view is the evidence of one scope, indexed for expressions.
type view struct {
	scope    state.Scope
	memory   *memory
	role     string            // the role whose workers count; empty: all workers
	roles    map[string]string // pod → role, of pods with a role
	guessed  bool              // the alerts do not name this pool, or this phase of its pool
	strange  string            // the subject of the alerts if it is no pool; else empty
	facts    *factsVal
	signals  map[string]*series
	numbered []*series          // the same, by the catalogue's numbers
	numbers  map[string]int     // signal → number
	missing  map[string]string  // signal → reason why it is missing
	cutShort map[string]*series // lengths that are biased by aborts, as lower bounds
	workers  int                // engines: the pods of a parallel group count as one
	engine   map[string]string  // pod → its engine, of pods that share an engine
	whole    *group
	pods     []*group
	gpus     []*group
	nodes    []*group
	ids      map[string]int        // of pods, GPUs and nodes, by key
	keys     []string              // by ID
	order    []int                 // the groups' IDs, sorted by key
	gpusOf   map[int][]int         // pod → GPUs
	asked    map[string][]*answers // kind of entity → answers by the expression's number; causes share expressions
	recent   *series

	expressions int                 // number of expressions in the catalogue
	news        map[string]*gpuNews // recent Xids of GPUs, by node/gpu
	// what another incident's verdict found broken, without the entities of this incident's alerts
	told breakage
	// workers of the alerts, with their engines' pods and their nodes; nil if an alert is not about
	// a single worker
	alerted map[string]bool
}

// series returns the samples of a signal, or nil if the scope has none.
func (v *view) series(signal string) *series { return v.signals[signal] }

// empty reports whether the scope has no sample of any signal.
func (v *view) empty() bool { return len(v.signals) == 0 }

// whyMissing returns the reason for which a signal is missing; empty if none is known.
func (v *view) whyMissing(signal string) string { return v.missing[signal] }

// isTruncated reports whether only a lower bound of a signal is known.
func (v *view) isTruncated(signal string) bool { return v.cutShort[signal] != nil }

// alertsAnywhere reports whether some alert is about no single worker, so that any may be meant.
func (v *view) alertsAnywhere() bool { return len(v.alerted) == 0 }

// isAlerted reports whether the alerts are about the entity's worker or machine.
func (v *view) isAlerted(g *group) bool { return v.alerted[g.pod] || v.alerted[g.node] }

// concerns records whether the alerts name this pool or phase, and what they are about if it is no
// pool.
func (v *view) concerns(known bool, strange string) { v.guessed, v.strange = !known, strange }

// answers holds the entities for which an expression holds, and the number with an answer. The pods
// of one engine count as one.
type answers struct {
	hits     []*group
	answered int
}

func (v *view) ask(x *expression, per string) *answers {
	asked := v.asked[per]
	if asked == nil {
		asked = v.memory.asked.Take(v.expressions)
		v.asked[per] = asked
	}
	if a := asked[x.number]; a != nil {
		return a
	}
	a := &v.memory.answers.Take(1)[0]
	asked[x.number] = a
	var told []*group
	groups := v.groups(per)
	for i, g := range groups {
		holds, ok := x.answer(g)
		if !ok {
			continue
		}
		a.answered++
		if len(v.engine) > 0 {
			told = append(told, g)
		}
		if holds {
			if a.hits == nil {
				a.hits = v.memory.hits.Take(len(groups) - i)[:0]
			}
			a.hits = append(a.hits, g)
		}
	}
	if len(v.engine) > 0 {
		a.answered = v.engines(told)
	}
	return a
}

// engines counts entities: the pods of one engine are one, and GPUs and nodes count singly.
func (v *view) engines(of []*group) int {
	if len(v.engine) == 0 {
		return len(of)
	}
	seen := map[string]bool{}
	for _, g := range of {
		key := g.key
		if e := v.engine[g.key]; e != "" && g.key == g.pod {
			key = e
		}
		seen[key] = true
	}
	return len(seen)
}

// enginesOf counts the engines of pods.
func (v *view) enginesOf(pods []string) int {
	if len(v.engine) == 0 {
		return len(pods)
	}
	seen := map[string]bool{}
	for _, p := range pods {
		seen[cmp.Or(v.engine[p], p)] = true
	}
	return len(seen)
}

// newView indexes the evidence of a scope, with workers of every role.
func newView(in *state.Incident, scope state.Scope, ev *state.Evidence, cat *Catalog) *view {
	var workers []state.Worker
	if ev != nil {
		workers = ev.Workers
	}
	return newTopology(workers).view(in, ward{scope: scope}, ev, cat)
}

// view indexes the evidence of a ward, for the workers of the topology.
func (t *topology) view(in *state.Incident, of ward, ev *state.Evidence, cat *Catalog) *view {
	scope, role := of.scope, of.role
	mem := memories.Get().(*memory)
	v := &view{
		scope: scope, role: role, roles: map[string]string{}, facts: cat.factsOf(in), signals: mem.bySignal, numbered: make([]*series, len(cat.numbers)), numbers: cat.numbers,
		missing: map[string]string{}, cutShort: map[string]*series{}, memory: mem, keys: mem.keys, engine: map[string]string{}, ids: mem.byKey, gpusOf: mem.gpusOf, asked: map[string][]*answers{}, expressions: cat.expressions,
	}
	v.whole = &group{view: v}
	if ev == nil {
		return v
	}
	v.facts.at = ev.At
	for _, m := range ev.Missing {
		v.missing[m.Signal] = m.Reason
	}
	c := censuses.Get().(*census)
	defer c.done()
	c.view, c.top = v, t
	ours := mem.names.Take(len(ev.Workers))[:0]
	for _, w := range ev.Workers {
		e := state.Entity{Namespace: w.Namespace, Model: w.Model, Pool: w.Pool, Pod: w.Pod, Node: w.Node}
		if w.Pod != "" && c.top.inScope(e, scope) && !differ(w.Role, role) {
			if w.Role != "" {
				v.roles[w.Pod] = w.Role
			}
			c.add("pod", group{key: w.Pod, pod: w.Pod, node: w.Node})
			ours = append(ours, w.Pod)
			if w.Group != "" {
				v.engine[w.Pod] = w.Namespace + "/" + w.EngineKey() // the slash distinguishes it from a pod
			}
		}
	}
	v.workers = v.enginesOf(ours)
	if xids := v.judged(ev, c, cat); len(xids) > 0 {
		v.take(xids, "", ev.At, c, cat)
		v.take(ev.Samples, "gpu_xid", ev.At, c, cat)
	} else {
		v.take(ev.Samples, "", ev.At, c, cat)
	}
	v.arrange(c.found)
	v.cut(cat)
	v.alerted = cat.alerted(in, c.top, ev.Workers)
	v.told = cat.told(in, c.top, ev)
	return v
}

// take adds the samples in the view's scope, without those of one signal.
func (v *view) take(samples []state.Sample, but string, gathered time.Time, c *census, cat *Catalog) {
	signal, wanted, oldest := "", false, gathered.Add(-stale)
	for i := range samples {
		s := &samples[i]
		if s.Signal != signal {
			signal, wanted = s.Signal, cat.used[s.Signal] && s.Signal != but
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
func (c *Catalog) alerted(in *state.Incident, top *topology, workers []state.Worker) map[string]bool {
	out := map[string]bool{}
	engines := map[place]bool{}
	for _, s := range in.Symptoms {
		if !c.own(s.Symptom, s.Hints) || len(s.Entities) == 0 {
			return nil
		}
		for _, raw := range s.Entities {
			e := top.resolve(raw)
			if e.Pod == "" {
				return nil
			}
			out[e.Pod], out[e.Node] = true, e.Node != ""
			if w := top.byPod[placeOf(e.Namespace, e.Pod)]; w != nil {
				engines[placeOf(w.Namespace, w.EngineKey())] = true
			}
		}
	}
	for _, w := range workers {
		if engines[placeOf(w.Namespace, w.EngineKey())] {
			out[w.Pod], out[w.Node] = true, w.Node != ""
		}
	}
	return out
}

// elsewhere reports whether none of the entities is among those of the alerts.
func (v *view) elsewhere(pods, nodes []string) bool {
	found := slices.Concat(pods, nodes)
	return len(v.alerted) > 0 && len(found) > 0 && !slices.ContainsFunc(found, func(name string) bool { return v.alerted[name] })
}

// id returns the number of a key; -1 for an empty key.
func (v *view) id(key string) int {
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
func (v *view) sample(samples []state.Sample, i int, k *sighting) {
	s := &samples[i]
	ser := v.recent
	if ser == nil || ser.signal != s.Signal {
		if ser = v.signals[s.Signal]; ser == nil {
			ser = &v.memory.series.Take(1)[0]
			*ser = series{signal: s.Signal, index: len(v.signals), samples: samples}
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
func (v *view) arrange(groups []entry) {
	slices.SortStableFunc(groups, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	v.order = v.memory.ids.Take(len(groups))[:0]
	for _, of := range []*[]*group{&v.pods, &v.gpus, &v.nodes} {
		*of = v.memory.hits.Take(len(groups))[:0]
	}
	for i, g := range groups {
		g.id, g.podID, g.nodeID = v.id(g.key), v.id(g.pod), v.id(g.node)
		if i == 0 || g.key != groups[i-1].key {
			v.order = append(v.order, g.id)
		}
		switch g.kind {
		case "pod":
			v.pods = append(v.pods, g.group)
		case "gpu":
			v.gpus = append(v.gpus, g.group)
		case "node":
			v.nodes = append(v.nodes, g.group)
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

// roleOf returns the role of the group's worker; "" if the pool has no separate phases. For a scope
// it returns the role that all its workers have.
func (g *group) roleOf() string {
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

// groups returns the entities of a kind. If no worker reports by itself (a Dynamo frontend knows
// only the pool), the whole scope replaces the pods.
func (v *view) groups(per string) []*group {
	switch per {
	case "pod":
		if len(v.pods) > 0 {
			return v.pods
		}
		return []*group{v.whole}
	case "gpu":
		return v.gpus
	case "node":
		return v.nodes
	}
	return []*group{v.whole}
}

func (c *Catalog) factsOf(in *state.Incident) *factsVal {
	f := &factsVal{symptoms: map[string]bool{}, began: map[string]time.Time{}, hints: map[string]string{}}
	for _, s := range in.Symptoms {
		f.symptoms[string(s.Symptom)], f.began[string(s.Symptom)] = true, s.First
		maps.Copy(f.hints, s.Hints)
	}
	f.xids = c.alertedXids(f.hints)
	if len(f.xids) > 0 {
		f.xidClass = c.xids[f.xids[0].code].Class
	}
	return f
}
