package evidence

import (
	"strings"

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
func (s *Subject) GPU() string { return s.gpu }

// Key returns the name that identifies the subject among its kind; empty for the whole scope.
func (s *Subject) Key() string { return s.key }

// Node returns the node that the subject is or runs on.
func (s *Subject) Node() string { return s.node }

// View returns the view that the subject belongs to.
func (s *Subject) View() *View { return s.view }

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

func (g *Subject) Facts() *condition.Facts { return g.view.facts }

func (g *Subject) PoolKnown() bool { return !g.view.guessed }

func (g *Subject) Workers() int { return g.view.workers }

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

func (g *Subject) readingOf(s *series) *condition.Reading {
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
func (g *Subject) Own(s *series) *state.Sample {
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
