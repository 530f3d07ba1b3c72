package rules

import (
	"cmp"
	"math"
	"slices"

	"paramedic/state"
)

// verdict weighs every cause in the scope that the incident is about. Its view has to be released.
func (c *Catalog) verdict(in *state.Incident, ev *state.Evidence) verdict {
	base, top := in.Scope, topologies.Get().(*topology)
	defer top.release()
	if ev != nil {
		top.learn(ev.Workers)
		base = top.correct(base)
	}
	scopes := []state.Scope{base}
	if base.Pool == "" && len(base.Nodes) == 0 {
		if pools := top.poolsIn(base); len(pools) > 0 {
			scopes = pools
		}
	}
	var wards []ward
	for _, scope := range scopes {
		wards = append(wards, top.phases(scope, ev)...)
	}
	var best verdict
	for i, w := range wards {
		// Where the alerts name no pool, the pool with the clearest trouble is the one that they are about; and so with its phases.
		view := top.view(in, w, ev, c)
		view.guessed = len(wards) > 1
		v := c.weigh(view, in)
		if i > 0 && !v.better(best) {
			view.release()
			continue
		}
		if i > 0 {
			best.view.release()
		}
		best = v
	}
	return best
}

// verdict is the outcome of weighing all causes in one scope.
type verdict struct {
	view   *view
	ranked []weighed     // best first
	rival  *weighed      // the best of the rest that is no consequence of the first; nil: there is none
	named  bool          // the first stands out
	roots  []state.Cause // that lead to the first, and might each be its root: what would tell was not measured, or not before
	unseen bool          // the first is what an alert tells of, and could not be looked for; the second is that it means nothing
	margin float64
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

// firstRival is what the best has to be ahead of. What it is known to lead to is there with it, and no other answer to the question where
// the trouble came from; unless it was found on other workers, as a trouble of its own, or is easily taken for the best.
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

// looksLike says that either of two causes names the other among those that are easily taken for it.
func (c *Cause) looksLike(other *Cause) bool {
	names := func(a, b *Cause) bool {
		return slices.ContainsFunc(a.LookAlikes, func(l LookAlike) bool { return l.Cause == b.ID })
	}
	return names(c, other) || names(other, c)
}

func (c *Catalog) weigh(v *view, in *state.Incident) verdict {
	out := verdict{view: v, ranked: make([]weighed, 0, len(c.causes))}
	for _, cause := range c.causes {
		out.ranked = append(out.ranked, cause.weigh(v, in, c))
	}
	slices.SortStableFunc(out.ranked, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.cause.ID, b.cause.ID))
	})
	// Unknown is one more cause, at 0 decibans: even odds against all that the catalogue does not know, and all in it that no evidence
	// speaks for. Otherwise every cause that the catalogue learns would make the others less sure. Those causes share what is unknown's.
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
	if out.named && out.ranked[0].cause.ID == state.BenignAlert {
		out.askForAlerts(in)
	}
	return out
}

// askForAlerts takes it back that alerts mean nothing where nobody could look for what they tell of: a cause of which such an alert is typical
// would be named if what was not measured spoke for it. It moves up before the first and shares its odds.
func (v *verdict) askForAlerts(in *state.Incident) {
	best := v.ranked[0]
	for i := range v.ranked[1:] {
		w := v.ranked[i+1]
		typical := slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return alerted(s) && w.cause.Explains[s.Symptom] >= typicalOf })
		if !typical || w.unread == 0 || w.score+w.unread < threshold {
			continue
		}
		v.named, v.unseen = false, true
		v.ranked = slices.Concat([]weighed{w}, slices.Delete(v.ranked, i+1, i+2))
		v.ranked[0].confidence, v.ranked[1].confidence = round(best.confidence/2, 4), round(best.confidence/2, 4)
		v.rival = &v.ranked[1]
		return
	}
}

// askForRoots takes a name back that may be a consequence's. A surge, longer prompts and lost prefixes are changes: where nobody knows how
// things were before, or an engine does not tell, what they lead to stands out, whichever of them it was, and the advice for one makes another
// worse. Those that could have won if it were known move up behind the first and share its odds.
func (v *verdict) askForRoots(in *state.Incident) {
	best := v.ranked[0]
	var roots, rest []weighed
	for _, w := range v.ranked[1:] {
		could := w.score + w.gain
		if w.gain > 0 && could >= threshold && could >= best.score+best.loss+margin && w.cause.leadsTo(best.cause.ID, in.Symptoms) {
			roots, v.roots = append(roots, w), append(v.roots, w.cause.ID)
		} else {
			rest = append(rest, w)
		}
	}
	if len(roots) == 0 {
		return
	}
	v.named, v.ranked = false, slices.Concat(v.ranked[:1], roots, rest)
	share := round(best.confidence/float64(len(v.roots)+1), 4)
	for i := range len(v.roots) + 1 {
		v.ranked[i].confidence = share
	}
	v.rival = &v.ranked[1]
}
