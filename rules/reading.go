package rules

import (
	"errors"
	"math"
	"strings"

	"paramedic/state"
)

// readingFields are the fields of a signal in expressions.
var readingFields = []string{"value", "max", "min", "avg", "sum", "count", "baseline", "hour_ago", "day_ago", "week_ago", "z", "text", "least"}

// A number is a value that may be missing.
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

// A reading is one signal of one entity, with the statistics over all entities. A missing value is
// NaN.
type reading struct {
	*state.Sample
	*peers
}

func (r *reading) value() number    { return some(r.Value) }
func (r *reading) baseline() number { return optional(r.Baseline) }

// hourAgo returns the value an hour before the onset, the same moment for every signal.
func (r *reading) hourAgo() number {
	if r.HourAgo != nil {
		return optional(r.HourAgo)
	}
	return r.baseline()
}
func (r *reading) hasText() bool { return r.Text != "" }

// peers holds the statistics over all entities of a signal.
type peers struct {
	max, min, avg, sum number
	count              int
}

// whole is the storage of a reading over all entities.
type whole struct {
	r      reading
	sample state.Sample
	peers  peers
}

func (w *whole) reading() *reading {
	w.sample.Value = math.NaN()
	w.r = reading{Sample: &w.sample, peers: &w.peers}
	return &w.r
}

// nothing is the sample of an entity on which the signal was not measured, unlike on others.
var nothing = &state.Sample{Value: math.NaN()}

var errAbsent = errors.New("not there")

func readField(target any, i int) (any, error) {
	r, ok := target.(*reading)
	if bound, is := target.(*lowerBound); is {
		r, ok = bound.reading, readingFields[i] == "least"
	}
	if !ok {
		return nil, errAbsent
	}
	if readingFields[i] == "text" {
		if !r.hasText() {
			return nil, errAbsent
		}
		return r.Text, nil
	}
	n := r.number(readingFields[i])
	if !n.ok {
		return nil, errAbsent
	}
	return n.v, nil
}

func (r *reading) number(field string) number {
	if field == "" {
		return r.value()
	}
	if of := fields[field]; of != nil {
		return of(r)
	}
	return number{}
}

// fields maps the names in expressions to the numbers of a reading.
var fields = map[string]func(*reading) number{
	"value":    (*reading).value,
	"max":      func(r *reading) number { return r.max },
	"min":      func(r *reading) number { return r.min },
	"avg":      func(r *reading) number { return r.avg },
	"sum":      func(r *reading) number { return r.sum },
	"count":    func(r *reading) number { return some(float64(r.count)) },
	"baseline": (*reading).baseline,
	"hour_ago": (*reading).hourAgo,
	"day_ago":  func(r *reading) number { return optional(r.DayAgo) },
	"week_ago": func(r *reading) number { return optional(r.WeekAgo) },
	"z":        func(r *reading) number { return optional(r.Z) },
	"least":    (*reading).value, // of a lower bound
}

// A lowerBound is a signal whose values are too short: only its field least has a value.
type lowerBound struct{ *reading }

// A subject is the entity that a condition is evaluated for.
type subject interface {
	activation
	facts() *factsVal                  // what the alerts report
	readingAt(signal int) *reading     // by the signal's number; nil if the scope has none
	lowerBound(signal string) *reading // the truncated reading; nil if the signal is not truncated
	poolKnown() bool                   // reports whether the alerts name the pool
	workers() int                      // in the scope
	roleOf() string
	podName() string
}

// A series is one signal over the scope, by entity.
type series struct {
	signal  string
	samples []state.Sample // the slice with its samples
	pool    *state.Sample  // the pool's own series
	// of pods, GPUs and nodes by their ID in the view: index of the sample, from 1; 0: none; may
	// end before the last ID
	by       []int32
	measured int      // number of samples in by
	whole    *reading // over all of by, or the pool's if by is empty
	index    int      // of the readings in a group's cache
}

// lacksPast reports whether an expression reads the past of the signal and it is missing.
func (s *series) lacksPast(src string) bool {
	asks := strings.Contains(src, s.signal+".baseline") || strings.Contains(src, s.signal+".hour_ago")
	return asks && !s.whole.baseline().ok
}

// ofPool reports whether the pool has a series of its own.
func (s *series) ofPool() bool { return s.pool != nil }

// of returns the sample of an ID; nil if there is none.
func (s *series) of(id int) *state.Sample {
	if id < 0 || id >= len(s.by) || s.by[id] == 0 {
		return nil
	}
	return &s.samples[s.by[id]-1]
}

// summarise computes the statistics over all entities. It adds values in the order of the entities'
// names, since floating-point sums depend on the order.
func (s *series) summarise(order []int, into *whole) {
	r := into.reading()
	var total float64
	var baseline, hourAgo, dayAgo, weekAgo mean
	for left, i := s.measured, 0; left > 0 && i < len(order); i++ {
		o := s.of(order[i])
		if o == nil {
			continue
		}
		left--
		if r.Text == "" {
			r.Text = o.Text
		}
		if z := optional(o.Z); z.ok && (r.Z == nil || math.Abs(z.v) > math.Abs(*r.Z)) {
			r.Z = o.Z
		}
		baseline.add(o.Baseline)
		if hourAgo.add(o.HourAgo); o.HourAgo == nil {
			hourAgo.add(o.Baseline)
		}
		dayAgo.add(o.DayAgo)
		weekAgo.add(o.WeekAgo)
		v := some(o.Value)
		if !v.ok {
			continue
		}
		r.count++
		total += v.v
		if !r.max.ok || v.v > r.max.v {
			r.max = v
		}
		if !r.min.ok || v.v < r.min.v {
			r.min = v
		}
	}
	if r.count > 0 {
		r.sum, r.avg = some(total), some(total/float64(r.count))
		r.Value = r.avg.v
	}
	r.Baseline, r.HourAgo, r.DayAgo, r.WeekAgo = baseline.value(), hourAgo.value(), dayAgo.value(), weekAgo.value()
	if s.pool != nil {
		s.overlayPool(r)
	}
	s.whole = r
}

// A mean is the mean of the values that are not missing.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v *float64) {
	if n := optional(v); n.ok {
		m.sum += n.v
		m.n++
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / float64(m.n)
	return &v
}

// overlayPool replaces values of the whole scope by those of the pool's own series.
func (s *series) overlayPool(r *reading) {
	p := s.pool
	if v := some(p.Value); v.ok {
		r.Value = p.Value
		if r.count == 0 {
			r.max, r.min, r.avg, r.sum, r.count = v, v, v, v, 1
		}
		// The mean of the pods' baselines is not the baseline of the pool's own series.
		r.Baseline, r.HourAgo, r.DayAgo, r.WeekAgo = p.Baseline, p.HourAgo, p.DayAgo, p.WeekAgo
	}
	if optional(p.Z).ok {
		r.Z = p.Z
	}
	if p.Text != "" {
		r.Text = p.Text
	}
}

// A group is one entity on which evidence is evaluated: a pod, a GPU, a node, or the whole scope
// (no key).
type group struct {
	key            string // unique within its kind
	pod, node, gpu string
	view           *view
	cache          []reading

	id, podID, nodeID int // of key, pod and node in the view; below zero: none
}

// ResolveName returns a variable for CEL. It is part of cel.Activation.
func (g *group) ResolveName(name string) (any, bool) {
	switch name {
	case "facts_":
		return g.view.facts, true
	case "role":
		return g.roleOf(), true
	case "worker":
		return g.pod, true
	case poolKnown:
		return !g.view.guessed, true
	case "workers":
		return float64(g.view.workers), true
	}
	if r := g.reading(name); r != nil {
		return r, true
	}
	if r := g.lowerBound(name); r != nil {
		return &lowerBound{r}, true
	}
	return nil, false
}

// Parent is part of cel.Activation.
func (g *group) Parent() activation { return nil }

func (g *group) facts() *factsVal { return g.view.facts }

func (g *group) poolKnown() bool { return !g.view.guessed }

func (g *group) workers() int { return g.view.workers }

func (g *group) podName() string { return g.pod }

// lowerBound returns the truncated reading of a signal, or nil if the signal is not truncated.
func (g *group) lowerBound(signal string) *reading { return g.readingOf(g.view.cutShort[signal]) }

// reading returns the entity's reading of a signal; nil if the signal is missing in the whole
// scope.
func (g *group) reading(signal string) *reading { return g.readingOf(g.view.signals[signal]) }

// readingAt returns the reading of the signal with this number in the catalogue.
func (g *group) readingAt(number int) *reading { return g.readingOf(g.view.numbered[number]) }

func (g *group) readingOf(s *series) *reading {
	if s == nil {
		return nil
	}
	if g.key == "" {
		return s.whole
	}
	if g.cache == nil {
		g.cache = g.view.memory.readings.Take(len(g.view.signals))
	}
	r := &g.cache[s.index]
	if r.Sample == nil {
		r.peers, r.Sample = s.whole.peers, s.whole.Sample
		if s.measured > 0 {
			// The signal is measured per pod, GPU or node, so the pool's value is none of this
			// entity.
			if r.Sample = g.own(s); r.Sample == nil {
				r.Sample = nothing
			}
		}
	}
	return r
}

// own returns the sample of the entity, its pod or its node, or the highest of the pod's GPUs.
func (g *group) own(s *series) *state.Sample {
	for _, id := range [...]int{g.id, g.podID, g.nodeID} {
		if o := s.of(id); o != nil {
			return o
		}
	}
	if g.podID < 0 || g.gpu != "" { // the value of another GPU of the pod does not apply
		return nil
	}
	var worst *state.Sample
	for _, id := range g.view.gpusOf[g.podID] {
		if o := s.of(id); o != nil && (worst == nil || o.Value > worst.Value) {
			worst = o
		}
	}
	return worst
}

// name returns the entity's name for people.
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
