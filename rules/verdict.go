package rules

import (
	"cmp"
	"math"
	"slices"

	"paramedic/state"
)

// verdict weighs every cause in the scope that the incident is about. It has to be released.
func (c *Catalog) verdict(in *state.Incident, ev *state.Evidence) verdict {
	base, top := in.Scope, topologies.Get().(*topology)
	defer top.release()
	if ev != nil {
		top.learn(ev.Workers)
		base = top.correct(base)
	}
	about := c.subject(in, base, top)
	if about.strange != "" {
		ev = nil // what is known is known of others
	}
	var wards []ward
	for _, scope := range about.scopes {
		wards = append(wards, top.phases(scope, ev)...)
	}
	var best verdict
	healthy := 0
	for i, w := range wards {
		// Where the alerts name no pool, the pool with the clearest trouble is the one that they
		// are about; and so with its phases.
		view := top.view(in, w, ev, c)
		view.concerns(about.known && len(wards) == 1, about.strange)
		v := c.weigh(view, in)
		if v.benign() {
			healthy++
		}
		if i > 0 && !v.better(best) {
			v.release()
			continue
		}
		if i > 0 {
			best.release()
		}
		best = v
	}
	if len(about.scopes) > 1 && best.benign() && healthy < len(wards) {
		best.named, best.unplaced = false, true
		best.ranked[0].confidence = round(best.ranked[0].confidence/2, 4)
	}
	return best
}

// benign reports whether the verdict is that the alerts mean nothing.
func (v verdict) benign() bool { return v.named && v.ranked[0].cause.ID == state.BenignAlert }

// verdict is the outcome of weighing all causes in one scope.
type verdict struct {
	view   *view
	memory *weighing
	ranked []weighed     // best first
	rival  *weighed      // the best of the rest that is no consequence of the first; nil: there is none
	named  bool          // the first stands out
	roots  []state.Cause // that lead to the first, and might each be its root: what would tell was not measured, or not before
	twins  []state.Cause // that it may as well be: what tells them from the first was not measured
	lacks  []string      // … those signals
	unseen bool          // the first is what an alert tells of, and could not be looked for; the second is that it means nothing
	// unplaced says that the first is that a pool is healthy which the alerts need not mean, and
	// another one is not known to be.
	unplaced bool
	margin   float64
}

func (v verdict) better(than verdict) bool {
	if v.named != than.named {
		return v.named
	}
	if len(v.ranked) == 0 || len(than.ranked) == 0 {
		return len(v.ranked) > 0
	}
	a, b := v.ranked[0], than.ranked[0]
	if ab, bb := a.cause.ID == state.BenignAlert, b.cause.ID == state.BenignAlert; v.named && ab != bb {
		return bb
	}
	return a.score > b.score
}

// firstRival is what the best has to be ahead of. What it is known to lead to is there with it, and
// no other answer to the question where the trouble came from; unless it was found on other
// workers, as a trouble of its own, or is easily taken for the best.
func (v verdict) firstRival(in *state.Incident) *weighed {
	best := &v.ranked[0]
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		apart := best.cause.local() && w.cause.local() && disjoint(best.pods, w.pods)
		if apart || best.cause.looksLike(w.cause) || !best.cause.leadsTo(w.cause.ID, in.Symptoms) {
			return w
		}
	}
	return nil
}

// looksLike says that either of two causes names the other among those that are easily taken for
// it.
func (c *Cause) looksLike(other *Cause) bool {
	names := func(a, b *Cause) bool {
		return slices.ContainsFunc(a.LookAlikes, func(l LookAlike) bool { return l.Cause == b.ID })
	}
	return names(c, other) || names(other, c)
}

func (c *Catalog) weigh(v *view, in *state.Incident) verdict {
	mem := weighings.Get().(*weighing)
	out := verdict{view: v, memory: mem, ranked: mem.ranked.Take(len(c.causes))}
	signs := c.signs(in)
	for i, cause := range c.causes {
		out.ranked[i] = cause.weigh(v, signs, c, mem)
	}
	slices.SortStableFunc(out.ranked, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.cause.ID, b.cause.ID))
	})
	// Unknown is one more cause, at 0 decibans: even odds against all that the catalogue does not
	// know, and all in it that no evidence speaks for. Otherwise every cause that the catalogue
	// learns would make the others less sure. Those causes share what is unknown's.
	total, within := 1.0, 0.0
	for _, w := range out.ranked {
		if w.stands() {
			total += w.odds()
		} else {
			within += w.odds()
		}
	}
	for i := range out.ranked {
		w := &out.ranked[i]
		w.confidence = w.odds() / total
		if !w.stands() {
			w.confidence /= max(1, within)
		}
		w.confidence = round(w.confidence, 4)
	}
	if len(out.ranked) > 0 {
		next := 0.0
		if out.rival = out.firstRival(in); out.rival != nil {
			next = math.Max(next, out.rival.score)
		}
		out.margin = round(out.ranked[0].score-next, 2)
		out.named = out.ranked[0].score >= threshold && out.margin >= margin
	}
	if out.named {
		out.askForRoots(in)
	}
	if out.named {
		out.askForTwins(in, c)
	}
	if out.named {
		out.askForProof()
	}
	if out.named && out.ranked[0].cause.ID == state.BenignAlert {
		out.askForAlerts(in)
	}
	return out
}
