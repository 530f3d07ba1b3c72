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

// stale is how much older than its gathering a sample may be before it says nothing.
const stale = 10 * time.Minute

// view is the evidence of one scope, arranged for expressions.
type view struct {
	scope   state.Scope
	facts   *factsVal
	signals map[string]*series
	missing map[string]string // signal → why it is not there
	workers int
	whole   *group
	pods    []*group
	gpus    []*group
	nodes   []*group
	gpusOf  map[string][]string // pod → GPU keys
	asked   map[question]*answers
	slab    []own // of all samples, never grown past its capacity: pointers into it stay good
}

// question is an expression asked of a kind of entity. Causes ask many of the same.
type question struct {
	x   *expression
	per string
}

// answers are those for whom an expression holds, and how many had an answer.
type answers struct {
	hits     []*group
	answered int
}

func (v *view) ask(x *expression, per string) *answers {
	q := question{x, per}
	if a, ok := v.asked[q]; ok {
		return a
	}
	a := &answers{}
	for _, g := range v.groups(per) {
		holds, ok := x.answer(g)
		if !ok {
			continue
		}
		a.answered++
		if holds {
			a.hits = append(a.hits, g)
		}
	}
	v.asked[q] = a
	return a
}

func newView(in *state.Incident, scope state.Scope, ev *state.Evidence, used map[string]bool) *view {
	v := &view{
		scope: scope, facts: factsOf(in), signals: map[string]*series{}, missing: map[string]string{},
		gpusOf: map[string][]string{}, asked: map[question]*answers{},
	}
	v.whole = &group{view: v}
	if ev == nil {
		return v
	}
	for _, m := range ev.Missing {
		v.missing[m.Signal] = m.Reason
	}
	top := newTopology(ev.Workers)
	groups := map[place]*group{}
	add := func(kind string, g group) {
		if have, ok := groups[place{kind, g.key}]; ok {
			have.pod, have.node, have.gpu = cmp.Or(have.pod, g.pod), cmp.Or(have.node, g.node), cmp.Or(have.gpu, g.gpu)
			return
		}
		g.view = v
		groups[place{kind, g.key}] = &g
	}
	for _, w := range ev.Workers {
		e := state.Entity{Namespace: w.Namespace, Model: w.Model, Pool: w.Pool, Pod: w.Pod, Node: w.Node}
		if w.Pod != "" && top.inScope(e, scope) {
			add("pod", group{key: w.Pod, pod: w.Pod, node: w.Node})
			v.workers++
		}
	}
	v.slab = make([]own, 0, len(ev.Samples))
	for i := range ev.Samples {
		s := &ev.Samples[i]
		if !used[s.Signal] {
			continue
		}
		e := top.resolve(s.Entity)
		if !top.inScope(e, scope) {
			continue
		}
		if !s.At.IsZero() && ev.At.Sub(s.At) > stale {
			if _, ok := v.missing[s.Signal]; !ok {
				v.missing[s.Signal] = "stale since " + s.At.UTC().Format("15:04:05")
			}
			continue
		}
		v.sample(s, e, add)
	}
	v.arrange(groups)
	return v
}

// sample puts one sample with its entity.
func (v *view) sample(s *state.Sample, e state.Entity, add func(string, group)) {
	ser := v.signals[s.Signal]
	if ser == nil {
		ser = &series{by: make(map[string]*own, v.workers), index: len(v.signals)}
		v.signals[s.Signal] = ser
	}
	v.slab = append(v.slab, own{value: some(s.Value), baseline: optional(s.Baseline), dayAgo: optional(s.DayAgo), z: optional(s.Z), text: s.Text, hasText: s.Text != ""})
	o := &v.slab[len(v.slab)-1]
	key := cmp.Or(e.Pod, e.Instance)
	switch {
	case e.GPU != "":
		gpu := e.Node + "/" + e.GPU
		add("gpu", group{key: gpu, pod: e.Pod, node: e.Node, gpu: e.GPU})
		if e.Pod != "" && !slices.Contains(v.gpusOf[e.Pod], gpu) {
			v.gpusOf[e.Pod] = append(v.gpusOf[e.Pod], gpu)
		}
		key = gpu
	case key != "":
		add("pod", group{key: key, pod: key, node: e.Node})
	case e.Node != "":
		add("node", group{key: e.Node, node: e.Node})
		key = e.Node
	default:
		// Of several pools in one scope the worst speaks.
		if ser.pool == nil || o.value.v > ser.pool.value.v {
			ser.pool = o
		}
		return
	}
	if have := ser.by[key]; have == nil || o.value.v > have.value.v {
		ser.by[key] = o
	}
}

// arrange orders the groups and sums the signals up.
func (v *view) arrange(groups map[place]*group) {
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b place) int { return cmp.Compare(a.name, b.name) })
	for _, k := range keys {
		g := groups[k]
		switch k.in {
		case "pod":
			v.pods = append(v.pods, g)
		case "gpu":
			v.gpus = append(v.gpus, g)
		case "node":
			v.nodes = append(v.nodes, g)
		}
	}
	if v.workers == 0 {
		v.workers = len(v.pods)
	}
	for _, gpus := range v.gpusOf {
		slices.Sort(gpus)
	}
	for _, s := range v.signals {
		s.summarise()
	}
}

// groups are the entities that evidence of a kind is asked of. Where no worker reports by itself (a Dynamo frontend knows the pool
// only), the pool stands for them.
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

func factsOf(in *state.Incident) *factsVal {
	f := &factsVal{symptoms: map[string]bool{}, hints: map[string]string{}}
	for _, s := range in.Symptoms {
		f.symptoms[string(s.Symptom)] = true
		maps.Copy(f.hints, s.Hints)
	}
	return f
}
