package rules

import (
	"errors"
	"math"
	"strings"
)

// readingFields are what an expression can ask of a signal, in the order of readField's switch.
var readingFields = []string{"value", "max", "min", "avg", "sum", "count", "baseline", "day_ago", "z", "text"}

// number is a value that may not be there.
type number struct {
	v  float64
	ok bool
}

func some(v float64) number { return number{v: v, ok: !math.IsNaN(v)} }

func optional(p *float64) number {
	if p == nil {
		return number{}
	}
	return some(*p)
}

// reading is one signal as an expression sees it: the looked-at entity's own value among those of its peers.
type reading struct {
	*own
	*peers
}

// peers is what all entities of a signal have in common.
type peers struct {
	max, min, avg, sum number
	count              int
}

// nothing is what an entity has of a signal that was measured on others only.
var nothing = &own{}

var errAbsent = errors.New("not there")

func readField(target any, i int) (any, error) {
	r, ok := target.(*reading)
	if !ok {
		return nil, errAbsent
	}
	if readingFields[i] == "text" {
		if !r.hasText {
			return nil, errAbsent
		}
		return r.text, nil
	}
	n := r.number(readingFields[i])
	if !n.ok {
		return nil, errAbsent
	}
	return n.v, nil
}

func (r *reading) number(field string) number {
	switch field {
	case "", "value":
		return r.value
	case "max":
		return r.max
	case "min":
		return r.min
	case "avg":
		return r.avg
	case "sum":
		return r.sum
	case "count":
		return some(float64(r.count))
	case "baseline":
		return r.baseline
	case "day_ago":
		return r.dayAgo
	case "z":
		return r.z
	}
	return number{}
}

// own are the values that one entity has of a signal.
type own struct {
	value, baseline, dayAgo, z number
	text                       string
	hasText                    bool
}

// series is one signal over the scope, by what it was measured on.
type series struct {
	signal   string
	pool     *own     // the pool's own series
	by       []*own   // values of pods, GPUs and nodes by their ID in the view; may end before the last ID
	measured int      // how many of by are there
	whole    *reading // over all of by, or the pool's where there is none
	index    int      // of the readings in a group's cache
}

// of are the values of an ID; nil where there are none.
func (s *series) of(id int) *own {
	if id < 0 || id >= len(s.by) {
		return nil
	}
	return s.by[id]
}

// summarise works out what all entities of the signal share. The order is that of their names: sums of floating-point numbers depend
// on it.
func (s *series) summarise(order []int) {
	r := &reading{own: &own{}, peers: &peers{}}
	var baseline, dayAgo, total float64
	var baselines, days int
	for _, id := range order {
		o := s.of(id)
		if o == nil {
			continue
		}
		if o.hasText && o.text != "" && !r.hasText {
			r.text, r.hasText = o.text, true
		}
		if o.z.ok && (!r.z.ok || math.Abs(o.z.v) > math.Abs(r.z.v)) {
			r.z = o.z
		}
		if o.baseline.ok {
			baseline += o.baseline.v
			baselines++
		}
		if o.dayAgo.ok {
			dayAgo += o.dayAgo.v
			days++
		}
		if !o.value.ok {
			continue
		}
		r.count++
		total += o.value.v
		if !r.max.ok || o.value.v > r.max.v {
			r.max = o.value
		}
		if !r.min.ok || o.value.v < r.min.v {
			r.min = o.value
		}
	}
	if r.count > 0 {
		r.sum, r.avg = some(total), some(total/float64(r.count))
		r.value = r.avg
	}
	if baselines > 0 {
		r.baseline = some(baseline / float64(baselines))
	}
	if days > 0 {
		r.dayAgo = some(dayAgo / float64(days))
	}
	if s.pool != nil {
		s.overlayPool(r)
	}
	s.whole = r
}

// overlayPool lets the pool's own series speak for the pool.
func (s *series) overlayPool(r *reading) {
	p := s.pool
	if p.value.ok {
		r.value = p.value
		if r.count == 0 {
			r.max, r.min, r.avg, r.sum, r.count = p.value, p.value, p.value, p.value, 1
		}
		// A mean of the pods' baselines is not the baseline of the pool's own series.
		r.baseline, r.dayAgo = p.baseline, p.dayAgo
	}
	if p.z.ok {
		r.z = p.z
	}
	if p.hasText {
		r.text, r.hasText = p.text, true
	}
}

// group is one entity that evidence is asked of: a pod, a GPU, a node, or the whole scope (no key).
type group struct {
	key            string // in its kind
	pod, node, gpu string
	view           *view
	cache          []reading

	id, podID, nodeID int // of key, pod and node in the view; below zero: none
}

// ResolveName gives CEL a variable. It is part of cel.Activation.
func (g *group) ResolveName(name string) (any, bool) {
	switch name {
	case "facts_":
		return g.view.facts, true
	case "workers":
		return float64(g.view.workers), true
	}
	if r := g.reading(name); r != nil {
		return r, true
	}
	return nil, false
}

// Parent is part of cel.Activation.
func (g *group) Parent() activation { return nil }

// reading is the signal as this entity has it; nil where nothing of the scope has it.
func (g *group) reading(signal string) *reading {
	s := g.view.signals[signal]
	if s == nil {
		return nil
	}
	if g.key == "" {
		return s.whole
	}
	if g.cache == nil {
		g.cache = make([]reading, len(g.view.signals))
	}
	r := &g.cache[s.index]
	if r.own == nil {
		r.peers, r.own = s.whole.peers, s.whole.own
		if s.measured > 0 {
			// It is measured on pods, GPUs or nodes: what this entity does not have, it does not have.
			if r.own = g.own(s); r.own == nil {
				r.own = nothing
			}
		}
	}
	return r
}

// own finds what the entity, or what it runs on or for, has of a signal.
func (g *group) own(s *series) *own {
	for _, id := range [...]int{g.id, g.podID, g.nodeID} {
		if o := s.of(id); o != nil {
			return o
		}
	}
	if g.podID < 0 || g.gpu != "" { // a GPU does not have what its sister in the pod has
		return nil
	}
	var worst *own
	for _, id := range g.view.gpusOf[g.podID] {
		if o := s.of(id); o != nil && (worst == nil || o.value.v > worst.value.v) {
			worst = o
		}
	}
	return worst
}

// name is what people call the entity.
func (g *group) name() string {
	switch {
	case g.gpu != "" && g.node != "":
		return "GPU " + g.gpu + " on " + g.node
	case g.gpu != "":
		return "GPU " + g.gpu
	case strings.TrimSpace(g.pod) != "":
		return g.pod
	}
	return g.node
}
