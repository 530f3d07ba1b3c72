package diagnose

import (
	"cmp"
	"math"
	"slices"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

// bestVerdict weighs every cause in the scope of the incident. The caller must release its view.
func bestVerdict(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) verdict {
	base, top := in.Scope, topology.Topologies.Get().(*topology.Topology)
	defer top.Release()
	if ev != nil {
		top.Learn(ev.Workers)
		base = top.Correct(base)
	}
	var read []state.Entity
	if ev != nil {
		read = ev.About
	}
	about := subject(c, in, base, top, read)
	if about.strange != "" {
		ev = nil // the evidence is about other workers
	}
	var wards []topology.PoolPhase
	for _, scope := range about.scopes {
		wards = append(wards, top.Phases(scope, ev)...)
	}
	var best verdict
	var troubles []trouble
	healthy := 0
	for i, w := range wards {
		// If the alerts name no pool or phase, they are about the one with the clearest verdict.
		view := evidence.Arrange(top, in, w, ev, c)
		view.Concerns(about.known && len(wards) == 1, about.strange)
		v := weighAll(c, view, in)
		switch {
		case v.benign():
			healthy++
		case v.named && w.Role == "":
			troubles = append(troubles, trouble{w.Scope, v.ranked[0].cause, v.ranked[0].score})
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
		best.ranked[0].confidence = condition.Round(best.ranked[0].confidence/2, 4)
	}
	best.withholdOneOfTwo(troubles)
	return best
}

// name returns the cause that the verdict names, or unknown.
func (v *verdict) name() state.Cause {
	if len(v.ranked) == 0 || v.view.Strange() != "" || !v.named {
		return state.Unknown
	}
	return v.ranked[0].cause.ID
}

// A trouble is a cause that stands out in one of the pools that the alerts can mean.
type trouble struct {
	scope state.Scope
	cause *catalog.Cause
	score float64
}

// benign reports whether the verdict names a benign alert.
func (v verdict) benign() bool { return v.named && v.ranked[0].cause.ID == state.BenignAlert }

// A verdict is the result of weighing all causes in one scope.
type verdict struct {
	view   *evidence.View
	memory *scratch
	ranked []causeScore  // best first
	rival  *causeScore   // the best other cause that is no consequence of the first; nil: there is none
	named  bool          // the first cause stands out
	roots  []state.Cause // causes that lead to the first and may be its root, because signals or their past are missing
	twins  []state.Cause // look-alikes of the first that missing signals would distinguish
	lacks  []string      // … those signals
	unseen bool          // an alert is typical of the first, whose signals are missing; the second is a benign alert
	// unplaced means that the first is a benign alert of a healthy pool that the alerts may not
	// mean, and another pool is not healthy.
	unplaced bool
	rivals   []trouble // other causes, about as clear, of other pools that the alerts can mean
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

// firstRival returns the cause that the best one must lead by the margin. A known consequence of
// the best is no rival. It is one if it was found on other workers, or is a look-alike of the best.
func (v verdict) firstRival(in *state.Incident) *causeScore {
	best := &v.ranked[0]
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		apart := best.cause.Local() && w.cause.Local() && catalog.Disjoint(best.pods, w.pods)
		if apart || best.cause.LooksLike(w.cause) || !best.cause.BringsAbout(w.cause.ID, in.Symptoms) {
			return w
		}
	}
	return nil
}

func weighAll(c *catalog.Catalog, v *evidence.View, in *state.Incident) verdict {
	mem := weighings.Get().(*scratch)
	causes := c.Causes()
	out := verdict{view: v, memory: mem, ranked: mem.ranked.Take(len(causes))}
	signs := signs(c, in)
	for i, cause := range causes {
		out.ranked[i] = weighCause(cause, v, signs, c, mem)
	}
	slices.SortStableFunc(out.ranked, func(a, b causeScore) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.cause.ID, b.cause.ID))
	})
	// Unknown is one more cause, at 0 decibans: even odds against everything that the catalogue
	// does not know. It includes the causes that no evidence supports; otherwise every new cause
	// would lower the confidence of the others. Those causes share the odds of unknown.
	total, within := 1.0, 0.0
	for _, w := range out.ranked {
		if w.isCandidate() {
			total += w.odds()
		} else {
			within += w.odds()
		}
	}
	for i := range out.ranked {
		w := &out.ranked[i]
		w.confidence = w.odds() / total
		if !w.isCandidate() {
			w.confidence /= max(1, within)
		}
		w.confidence = condition.Round(w.confidence, 4)
	}
	if len(out.ranked) > 0 {
		next := 0.0
		if out.rival = out.firstRival(in); out.rival != nil {
			next = math.Max(next, out.rival.score)
		}
		out.margin = condition.Round(out.ranked[0].score-next, 2)
		out.named = out.ranked[0].score >= threshold && out.margin >= margin
	}
	if out.named {
		out.withholdConsequence(in)
	}
	if out.named {
		out.withholdLookAlike(in, c)
	}
	if out.named {
		out.withholdUnproven()
	}
	if out.named && out.ranked[0].cause.ID == state.BenignAlert {
		out.withholdUnseenAlert(in)
	}
	return out
}
