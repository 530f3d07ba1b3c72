package deviation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/signals"
	"paramedic/state"
)

// ageGrain is the possible delay of the time of an event, from the clocks of different hosts.
const ageGrain = time.Minute

// counters are the units of signals that count events within a window. Any is new.
var counters = []string{"changes", "restarts", "errors", "events"}

// A Fault is a named cause, and where it is at work.
type Fault struct {
	Cause             *catalog.Cause
	Pods, Nodes, GPUs []string             // those that are marked as broken
	Rests             func(id string) bool // whether a finding for the cause rests on the signal
}

// Chain returns the links of a named cause that the evidence supports. A link is kept if the
// topology allows it, its signal is beyond its usual range in the right direction, and the order in
// time fits.
//
// A link does not fit if its signal clearly moved before every cause, or before every mechanism if
// it is a symptom. That later link is then dropped, never the cause: the evidence has named the
// cause, and the link may belong to other trouble. Unknown times fit. Without a cause there is no
// chain, because a mechanism and a symptom alone are a correlation.
func Chain(c *catalog.Catalog, v *evidence.View, f Fault) []state.Link {
	t := tracer{Fault: f, c: c, view: v}
	var out []state.Link
	first := make([]moment, len(state.LinkRoles)) // the earliest known moment of each role
	for _, want := range t.Cause.Chain {
		link, at, ok := t.link(want, out)
		rank := want.Role.Rank()
		if !ok || slices.ContainsFunc(first[:rank], func(before moment) bool { return before.lead(at) < 0 }) {
			continue
		}
		if first[rank].at.IsZero() || !at.at.IsZero() && at.at.Before(first[rank].at) {
			first[rank] = at
		}
		if out = append(out, link); out[0].Role != state.LinkCause {
			return nil
		}
	}
	return out
}

// A tracer looks for the links of a cause in the evidence.
type tracer struct {
	Fault
	c    *catalog.Catalog
	view *evidence.View
}

// link returns the first of the link's signals that moved, without those of other links.
func (t tracer) link(want catalog.Link, others []state.Link) (state.Link, moment, bool) {
	for _, id := range want.Signals {
		if slices.ContainsFunc(others, func(l state.Link) bool { return l.Signal == id }) {
			continue
		}
		for _, places := range t.places(id, want.Role) {
			if link, at, ok := t.earliest(want, id, places); ok {
				return link, at, true
			}
		}
	}
	return state.Link{}, moment{}, false
}

// places returns the entities on which the topology allows a link, in groups, the best group first.
// A fault of single workers shows on these, and its symptoms also in the pool's own series, such as
// those of a gateway. It never shows on other workers alone.
func (t tracer) places(id string, role state.LinkRole) [][]*evidence.Subject {
	s := t.view.Series(id)
	if s == nil {
		return nil
	}
	marked, whole := t.measured(s, id, true), []*evidence.Subject{t.view.Whole()}
	if t.isEvent(id) && !s.OfPool() {
		whole = t.measured(s, id, false) // codes and words have no mean
	}
	engines := t.view.EnginesOf(t.Pods)
	switch {
	case t.Cause.Local() && engines < t.view.Workers() && (role != state.LinkSymptom || !s.OfPool()):
		return [][]*evidence.Subject{marked}
	case t.Cause.Local(), engines > 0 && 2*engines <= t.view.Workers():
		return [][]*evidence.Subject{marked, whole}
	}
	return [][]*evidence.Subject{whole}
}

// isEvent reports whether a signal is a code, a word or a count of events.
func (t tracer) isEvent(id string) bool {
	unit := t.c.Units()[id]
	return unit == "code" || slices.Contains(counters, unit) || t.c.TextSignals()[id]
}

// measured returns the entities that the signal is measured on: those of the verdict, or all.
func (t tracer) measured(s *evidence.Series, id string, marked bool) []*evidence.Subject {
	of, ours := t.view.Pods(), func(g *evidence.Subject) bool { return slices.Contains(t.Pods, g.Pod()) }
	switch t.c.MeasuredOn()[id] {
	case signals.PerGPU:
		of, ours = t.view.Groups("gpu"), func(g *evidence.Subject) bool {
			return (slices.Contains(t.Pods, g.Pod()) || g.Pod() == "" && slices.Contains(t.Nodes, g.Node())) &&
				(len(t.GPUs) == 0 || slices.Contains(t.GPUs, g.GPU()))
		}
	case signals.PerNode:
		of, ours = t.view.Groups("node"), func(g *evidence.Subject) bool {
			hosts := func(p *evidence.Subject) bool { return p.Node() == g.Node() && slices.Contains(t.Pods, p.Pod()) }
			return slices.Contains(t.Nodes, g.Node()) || slices.ContainsFunc(t.view.Pods(), hosts)
		}
	}
	var out []*evidence.Subject
	for _, g := range of {
		if (!marked || ours(g)) && g.Own(s) != nil {
			out = append(out, g)
		}
	}
	return out
}

// earliest returns the link of the entity whose signal moved first. If no time is known, it chooses
// the one that stands out most.
func (t tracer) earliest(want catalog.Link, id string, of []*evidence.Subject) (best state.Link, at moment, ok bool) {
	var untimed []*evidence.Subject
	for _, g := range of {
		link, moved, found := t.on(g, want, id)
		switch {
		case !found:
		case moved.at.IsZero():
			untimed = append(untimed, g)
		case !ok || moved.at.Before(at.at):
			best, at, ok = link, moved, true
		}
	}
	if ok || len(untimed) == 0 {
		return best, at, ok
	}
	return t.on(evidence.StandsOut(untimed, id), want, id)
}

// on returns the link of one entity. ok reports whether the signal is beyond its usual range there.
func (t tracer) on(g *evidence.Subject, want catalog.Link, id string) (link state.Link, at moment, ok bool) {
	r := g.Reading(id)
	if r == nil {
		return link, at, false
	}
	link = state.Link{Role: want.Role, Signal: id, Pod: g.Pod(), GPU: g.GPU(), Value: r.Value, Unit: t.c.Units()[id]}
	if per := t.c.MeasuredOn()[id]; g.Key() != "" && (per == signals.PerNode || per == signals.PerGPU) {
		link.Node = g.Node()
	}
	title := t.c.Titles()[id]
	if t.c.TextSignals()[id] {
		if !condition.Some(r.Value).OK { // a word needs no number, and JSON has none for NaN
			link.Value = 0
		}
		link.Text = title + ": " + text.Phrase(r.Text) + on(g)
		return link, at, r.Text != "" && t.Rests(id)
	}
	if !r.CurrentValue().OK {
		return link, at, false
	}
	var side int
	if m, moved := movementOf(t.c, g, id); moved {
		usual := m.usual
		side, at, link.Baseline = cmp.Compare(m.shift, 0), m.began(), &usual
		if cmp.Compare(link.Value, m.usual) != side { // it returns to its course for a moment
			link.Value = m.usual + m.shift
		}
	} else {
		var from condition.Number
		from, side = t.side(r, want, id)
		link.Baseline = condition.Pointer(from)
		if from.OK && side != 0 {
			at = leftValue(t.c, g, id, from.V, side)
		}
	}
	if t.c.Ages()[id] {
		at = moment{g.Facts().At.Add(-time.Duration(r.Value * float64(time.Second))).Truncate(time.Second), ageGrain}
	}
	link.At = at.at.Truncate(time.Second)
	link.Text = t.sentence(g, link, side)
	return link, at, side != 0 && (want.Moves == catalog.MovesAny || want.Moves == catalog.MovesUp == (side > 0))
}

// side returns the side on which a reading without a course is, and the usual value that it is
// compared with. The side is 0 if the reading is usual. A state and a count of events need no past:
// that they are there is unusual. Other signals without a past, such as a memory's growth, count if
// a finding for the cause rests on them. So does a value that is not the same as before, but not
// far from it.
func (t tracer) side(r *condition.Reading, want catalog.Link, id string) (condition.Number, int) {
	unit, was := t.c.Units()[id], r.BaselineValue()
	switch {
	case was.OK && (unit == "bool" || unit == "code"):
		return was, cmp.Compare(r.Value, was.V)
	case unit == "bool" && r.Value < 1 && want.Moves == catalog.MovesDown:
		return was, -1
	case unit == "bool":
		return was, cmp.Compare(r.Value, 0)
	case slices.Contains(counters, unit):
		return was, max(0, cmp.Compare(r.Value, math.Max(was.V, 0)))
	}
	from, side := departure(r, unit)
	switch {
	case side != 0 || !t.Rests(id):
		return from, side
	case was.OK && same(r.Value, was.V, signals.Negligible(unit)):
		return was, 0
	}
	return was, cmp.Compare(r.Value, was.V)
}

// sentence describes a link that moved to a side: "Requests arriving rose to 12/s (usual 5/s) at
// 03:12 UTC", or "Pod ready: no on vllm-0" for a state.
func (t tracer) sentence(g *evidence.Subject, l state.Link, side int) string {
	title, since := t.c.Titles()[l.Signal], ""
	if !l.At.IsZero() {
		since = l.At.UTC().Format("15:04 UTC")
	}
	isState := l.Unit == "bool" || l.Unit == "code" || slices.Contains(counters, l.Unit)
	if !isState && l.Baseline != nil {
		verb := "rose"
		if side < 0 {
			verb = "fell"
		}
		out := fmt.Sprintf("%s %s to %s (usual %s)", title, verb, quantity(g, l.Signal, l.Value, l.Unit),
			signals.Quantity(*l.Baseline, l.Unit))
		if since != "" {
			out += " at " + since
		}
		return out
	}
	out := title + ": " + quantity(g, l.Signal, l.Value, l.Unit)
	switch r := g.Reading(l.Signal); {
	case l.Unit == "bool" && g.Key() == "" && r.Count > 1:
		n, yes := r.Sum.V, "yes"
		if side < 0 {
			n, yes = float64(r.Count)-n, "no"
		}
		out = fmt.Sprintf("%s: %s on %g of %d", title, yes, n, r.Count)
	case slices.Contains(counters, l.Unit):
		out = title + ": " + state.FormatNumber(l.Value) + on(g)
	}
	if l.Baseline != nil {
		before := signals.Quantity(*l.Baseline, l.Unit)
		if slices.Contains(counters, l.Unit) {
			before = state.FormatNumber(*l.Baseline)
		}
		out += ", before " + before
	}
	if since != "" {
		out += ", since " + since
	}
	return out
}
