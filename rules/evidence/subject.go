package evidence

import (
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules/condition"
	"paramedic/state"
)

// A Subject is one entity on which evidence is evaluated: a pod, a GPU, a node, or the whole scope
// (no key).
type Subject struct {
	key            string // unique within its kind
	pod, node, gpu string
	view           *View
	cache          []condition.Reading

	id, podID, nodeID int // of key, pod and node in the view; below zero: none
}

// GPU returns the GPU's index or UUID; empty for pods and nodes.
func (g *Subject) GPU() string { return g.gpu }

// Key returns the name that identifies the subject among its kind; empty for the whole scope.
func (g *Subject) Key() string { return g.key }

// Node returns the node that the subject is or runs on.
func (g *Subject) Node() string { return g.node }

// View returns the view that the subject belongs to.
func (g *Subject) View() *View { return g.view }

// ResolveName returns a variable for CEL. It is part of cel.Activation.
func (g *Subject) ResolveName(name string) (any, bool) {
	switch name {
	case "facts_":
		return g.view.facts, true
	case "role":
		return g.Role(), true
	case "worker":
		return g.pod, true
	case condition.PoolKnown:
		return !g.view.guessed, true
	case "workers":
		return float64(g.view.workers), true
	case condition.TroubleAge:
		return g.TroubleAge(), true
	}
	if r := g.Reading(name); r != nil {
		return r, true
	}
	if r := g.LowerBound(name); r != nil {
		return &condition.LowerBound{Reading: r}, true
	}
	return nil, false
}

// Parent is part of cel.Activation.
func (g *Subject) Parent() condition.Activation { return nil }

// Facts returns what the alerts of the incident report.
func (g *Subject) Facts() *condition.Facts { return g.view.facts }

// PoolKnown reports whether the alerts name the pool.
func (g *Subject) PoolKnown() bool { return !g.view.guessed }

// The ages of a trouble. Rules on rates fire within a quarter of an hour; alerts of a slow trouble,
// or those of rules that were loaded later, fire within a shift.
const (
	youngTrouble = 30 * time.Minute
	oldTrouble   = 6 * time.Hour
)

// TroubleAge returns the seconds within which the trouble of the pool began.
func (g *Subject) TroubleAge() float64 {
	if g.view.old {
		return oldTrouble.Seconds()
	}
	return youngTrouble.Seconds()
}

// Workers returns the number of engines in the scope.
func (g *Subject) Workers() int { return g.view.workers }

// Pod returns the pod that the subject is, or that uses the GPU; empty for nodes and the scope.
func (g *Subject) Pod() string { return g.pod }

// LowerBound returns the truncated reading of a signal, or nil if the signal is not truncated.
func (g *Subject) LowerBound(signal string) *condition.Reading {
	return g.readingOf(g.view.cutShort[signal])
}

// Reading returns the entity's reading of a signal; nil if the signal is missing in the whole
// scope.
func (g *Subject) Reading(signal string) *condition.Reading {
	return g.readingOf(g.view.signals[signal])
}

// ReadingAt returns the reading of the signal with this number in the catalogue.
func (g *Subject) ReadingAt(number int) *condition.Reading {
	return g.readingOf(g.view.numbered[number])
}

func (g *Subject) readingOf(s *Series) *condition.Reading {
	if s == nil {
		return nil
	}
	if g.key == "" {
		return s.Whole
	}
	if g.cache == nil {
		g.cache = g.view.memory.readings.Take(len(g.view.signals))
	}
	r := &g.cache[s.index]
	if r.Sample == nil {
		r.Peers, r.Sample = s.Whole.Peers, s.Whole.Sample
		if s.measured > 0 {
			// The signal is measured per pod, GPU or node, so the pool's value is none of this
			// entity.
			if r.Sample = g.Own(s); r.Sample == nil {
				r.Sample = condition.Nothing
			}
		}
	}
	return r
}

// Own returns the sample of the entity, its pod or its node, or the highest of the pod's GPUs.
func (g *Subject) Own(s *Series) *state.Sample {
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

// NumberOf returns a signal's value for the subject, or a missing number.
func (g *Subject) NumberOf(signal string) condition.Number {
	if r := g.Reading(signal); r != nil {
		return r.CurrentValue()
	}
	return condition.Number{}
}

// Name returns the entity's name for people.
func (g *Subject) Name() string {
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

// Chart returns the signal's points: the worker's own. For the whole scope it returns the scope's
// own, or the mean of the workers whose charts are long enough.
func (g *Subject) Chart(signal string) []state.Point {
	s := g.view.signals[signal]
	switch {
	case s == nil:
		return nil
	case g.key != "":
		return g.Reading(signal).Series
	case s.pool != nil && len(s.pool.Series) > 0:
		return s.pool.Series
	}
	lines := g.view.memory.lines.Take(len(g.view.order))[:0]
	longest := 0
	for _, id := range g.view.order {
		if o := s.of(id); o != nil && len(o.Series) > 0 {
			lines = append(lines, o.Series)
			longest = max(longest, len(o.Series))
		}
	}
	lines = slices.DeleteFunc(lines, func(l []state.Point) bool { return 10*len(l) < 9*longest })
	if len(lines) < 2 {
		return slices.Concat(lines...)
	}
	return average(lines, g.view.memory.points.Take(len(lines[0]))[:0])
}

// average appends to out the mean of the lines at the moments that all of them have.
func average(lines [][]state.Point, out []state.Point) []state.Point {
	next := make([]int, len(lines))
	for _, p := range lines[0] {
		sum := p.Value
		for i, l := range lines[1:] {
			for next[i] < len(l) && l[next[i]].At.Before(p.At) {
				next[i]++
			}
			if next[i] == len(l) || !l[next[i]].At.Equal(p.At) {
				sum = math.NaN()
				break
			}
			sum += l[next[i]].Value
		}
		if !math.IsNaN(sum) {
			out = append(out, state.Point{At: p.At, Value: sum / float64(len(lines))})
		}
	}
	return out
}
