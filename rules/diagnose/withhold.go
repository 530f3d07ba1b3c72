package diagnose

import (
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/state"
)

const (
	// decisive is the weight of a cause's own sign: ten to one.
	decisive = 10
	// ruledOut is the weight of measured evidence that excludes a look-alike: a thousand to one.
	ruledOut = 30
	// fittingAlerts is the weight of alerts that a cause needs if nothing else supports it: two to
	// one.
	fittingAlerts = 3

	// lastError is the signal of what an engine's log ends with.
	lastError = "pod_last_error"
)

// withholdUnseenAlert withholds the name if an alert is typical of another cause that lacks only
// unmeasured signals. If those signals could lift the other cause over the threshold, it moves to
// the first place, and both share the odds.
func (v *verdict) withholdUnseenAlert(in *state.Incident) {
	best := v.ranked[0]
	for i := range v.ranked[1:] {
		w := v.ranked[i+1]
		if !w.typical(in) {
			continue
		}
		if unread := w.unread + silentWeight(w.cause, v.view); unread == 0 || w.score+unread < threshold {
			continue
		}
		v.named, v.unseen = false, true
		v.ranked = slices.Concat([]causeScore{w}, slices.Delete(v.ranked, i+1, i+2))
		v.ranked[0].confidence, v.ranked[1].confidence = condition.Round(best.confidence/2, 4), condition.Round(best.confidence/2, 4)
		v.rival = &v.ranked[1]
		return
	}
}

// silentWeight returns the weight that a cause of single workers could gain if the alerts' workers
// exported what others export. A GPU that fell off the bus exports nothing more, while its
// neighbours look healthy. Evidence against the cause from those neighbours is then taken back.
func silentWeight(c *catalog.Cause, v *evidence.View) float64 {
	if v.AlertsAnywhere() {
		return 0
	}
	sum, unheard := 0.0, map[string]bool{}
	for _, e := range c.Evidence {
		if e.Weight <= 0 || e.Expects == "" || e.Per == "" || v.Ask(e.Condition, e.Per).Answered == 0 {
			continue
		}
		told := slices.ContainsFunc(v.Groups(e.Per), func(g *evidence.Subject) bool {
			_, ok := e.Condition.Answer(g)
			return ok && v.IsAlerted(g)
		})
		if !told {
			sum += e.Weight
			for _, id := range e.Condition.Signals {
				unheard[id] = true
			}
		}
	}
	for _, e := range c.Evidence {
		ofAll := e.Per == "" && slices.ContainsFunc(e.Condition.Signals, func(id string) bool { return unheard[id] })
		if ofAll && e.Weight < 0 && len(v.Ask(e.Condition, e.Per).Hits) > 0 {
			sum -= e.Weight
		}
	}
	return sum
}

// withholdConsequence withholds a cause that may be the consequence of another. A surge, longer
// prompts and lost prefixes are changes. Without a baseline or an engine's signal, only their
// consequence stands out, and advice for the wrong root makes things worse. Roots that could win
// with those signals move to the next places and share the odds.
func (v *verdict) withholdConsequence(in *state.Incident) {
	best := &v.ranked[0]
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		if v.isUntraceable(w) {
			continue
		}
		gain := w.gain
		if w.typical(in) {
			gain = max(gain, w.unread)
		}
		could := w.score + gain
		if gain > 0 && could >= threshold && could >= best.score+best.loss+margin &&
			w.cause.BringsAbout(best.cause.ID, in.Symptoms) {
			v.roots = append(v.roots, w.cause.ID)
		}
	}
	if len(v.roots) > 0 {
		v.share(v.roots)
	}
}

// withholdLookAlike withholds a cause if signals that distinguish it from a look-alike are missing.
// Without them the cause with the heavier other signs would win, right or wrong. Look-alikes that
// could win, or lower the first below the threshold, move up and share its odds. A look-alike that
// only common alerts support does not count, unless its own sign is among the missing signals. Nor
// does the fault of a GPU if a cause of the whole pool shows on several workers.
func (v *verdict) withholdLookAlike(in *state.Incident, cat *catalog.Catalog) {
	best := &v.ranked[0]
	asked := v.view.InQuestion(best.pods)
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		if w.cause.Scope == "gpu" && v.isWide() || w.score < -ruledOut || v.isUntraceable(w) {
			continue
		}
		by := best.cause.DistinguishedBy(w.cause.ID)
		its, bests := impactOfMissing(w.cause, by, v.view, cat, asked), impactOfMissing(best.cause, by, v.view, cat, asked)
		// Many missing signs describe one trouble in several ways, so they do not add up.
		most, least, unknown := w.score+min(its.gain, its.sign+decisive), best.score+bests.loss, len(its.unknown)+len(bests.unknown) > 0
		wins := most >= threshold && most > least
		falls := least < threshold && most > max(least, 0)
		if unknown && (wins || falls) && (w.supported() || w.typical(in) || w.couldDecide(its.sign)) {
			v.twins, v.lacks = append(v.twins, w.cause.ID), slices.Concat(v.lacks, its.unknown, bests.unknown)
		}
	}
	if len(v.twins) > 0 {
		v.lacks = evidence.SortedSet(v.lacks)
		v.share(v.twins)
	}
}

// isWide reports whether the first cause is found on several workers of a pool as a whole, or on
// engines of several nodes. The fault of one GPU does neither.
func (v *verdict) isWide() bool {
	best := &v.ranked[0]
	nodes := map[string]bool{}
	for _, w := range v.view.Pods() {
		if node := w.Node(); node != "" && slices.Contains(best.pods, w.Pod()) {
			nodes[node] = true
		}
	}
	return best.cause.Scope == "pool" && len(best.pods) > 1 || len(nodes) > 1 && v.view.EnginesOf(best.pods) > 1
}

// isUntraceable reports whether an engine's log names the first cause, and nothing measures any
// sign of the other one. What cannot be measured does not take a clear name away.
func (v *verdict) isUntraceable(w *causeScore) bool {
	measured := func(signal string) bool { return v.view.Series(signal) != nil }
	for _, e := range w.cause.Evidence {
		if e.Weight > 0 && e.Expects != "" && slices.ContainsFunc(e.Condition.Signals, measured) {
			return false
		}
	}
	return slices.ContainsFunc(v.ranked[0].seen,
		func(o observation) bool { return o.Signal == lastError && o.Weight >= decisive })
}

// withholdUnproven withholds a cause if its needed evidence has no answer. Its other signs are also
// those of other causes.
func (v *verdict) withholdUnproven() {
	if best := &v.ranked[0]; best.unproven != "" {
		v.named, best.confidence = false, condition.Round(best.confidence/2, 4)
	}
}

// share withholds the first cause and divides its odds evenly among it and the others.
func (v *verdict) share(others []state.Cause) {
	v.named = false
	place := func(w causeScore) int {
		if slices.Contains(others, w.cause.ID) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(v.ranked[1:], func(a, b causeScore) int { return place(a) - place(b) })
	part := condition.Round(v.ranked[0].confidence/float64(len(others)+1), 4)
	for i := range len(others) + 1 {
		v.ranked[i].confidence = part
	}
	v.rival = &v.ranked[1]
}

// typical reports whether an alert has a symptom that is typical of the cause, not common to many.
func (w *causeScore) typical(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms,
		func(s state.SymptomCount) bool { return alerted(s) && w.cause.Explains[s.Symptom] >= typicalOf })
}

// couldDecide reports whether alerts support the cause and a missing sign of this weight would
// decide for it.
func (w *causeScore) couldDecide(sign float64) bool {
	alerts, _ := w.support()
	return sign >= decisive && alerts >= fittingAlerts
}

// silentExporters returns the signals of the evidence that an exporter reports for other workers,
// but not for one of these. Signals of engines do not count, since they may be missing for a
// reason: a ratio of zero requests, or the cache of a worker that is never idle.
func silentExporters(c *catalog.Catalog, ids []string, e *catalog.Evidence, of []*evidence.Subject) []string {
	var out []string
	for _, id := range ids {
		if c.EngineSignals()[id] || c.TextSignals()[id] || !slices.Contains(e.Condition.Signals, id) {
			continue
		}
		silent := func(g *evidence.Subject) bool {
			s := g.View().Series(id)
			if s == nil || g.Own(s) != nil {
				return false
			}
			_, known := e.Condition.Answer(g) // from its other signals
			told := func(o *evidence.Subject) bool { return o.Own(s) != nil }
			return (e.Per == "" || !known) && slices.ContainsFunc(g.View().Pods(), told)
		}
		if slices.ContainsFunc(of, silent) {
			out = append(out, id)
		}
	}
	return out
}

// missing lists the signals that the cause's unanswered evidence lacks, with the reason if it is
// known.
func (w *causeScore) missing(v *evidence.View) []string {
	var out []string
	for _, e := range w.unanswered {
		for _, id := range e.Condition.Signals {
			s := v.Series(id)
			switch {
			case s == nil: // see appendUnread
			case s.LacksPast(e.When):
				out = append(out, id+" (no baseline)")
			case strings.Contains(e.When, id+".day_ago") && !s.Whole.Field("day_ago").OK:
				out = append(out, id+" (no value of a day ago)")
			case strings.Contains(e.When, id+".week_ago") && !s.Whole.Field("week_ago").OK:
				out = append(out, id+" (no value of a week ago)")
			}
		}
	}
	for _, id := range w.appendUnread(nil, v) {
		if why := v.WhyMissing(id); why != "" {
			id += " (" + text.Phrase(why) + ")"
		}
		out = append(out, id)
	}
	return evidence.SortedSet(out)
}

// appendUnread appends to an empty list the signals that the cause's unanswered evidence lacks as a
// whole, sorted.
func (w *causeScore) appendUnread(to []string, v *evidence.View) []string {
	for _, e := range w.unanswered {
		for _, id := range e.Condition.Signals {
			if v.Series(id) == nil {
				to = append(to, id)
			}
		}
	}
	return evidence.SortedSet(to)
}

// needsEngineSignal reports whether evidence reads a signal of engines that is missing and has no
// substitute, or a signal whose past is missing.
func (w *causeScore) needsEngineSignal(e *catalog.Evidence, v *evidence.View, cat *catalog.Catalog) bool {
	return slices.ContainsFunc(e.Condition.Signals, func(id string) bool {
		s := v.Series(id)
		if s == nil {
			return cat.EngineSignals()[id] && !v.IsTruncated(id) && w.substitute(id) == nil
		}
		return s.LacksPast(e.When)
	})
}

// substitute returns the evidence that is only evaluated if the signal is missing, or nil.
func (w *causeScore) substitute(id string) *catalog.Evidence {
	for _, e := range w.cause.Evidence {
		if e.Replaces == id {
			return e
		}
	}
	return nil
}

// isReplaced reports whether a substitute has answered for a signal that the evidence lacks.
func (w *causeScore) isReplaced(e *catalog.Evidence, v *evidence.View) bool {
	return slices.ContainsFunc(e.Condition.Signals, func(id string) bool {
		if v.Series(id) != nil {
			return false
		}
		s := w.substitute(id)
		return s != nil && v.Ask(s.Condition, s.Per).Answered > 0
	})
}

// reasons returns up to three distinct reasons for missing evidence.
func reasons(v *evidence.View) string {
	var out []string
	for _, why := range v.ReasonsMissing() {
		if r := text.Phrase(why); !slices.Contains(out, r) && len(out) < 3 {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, "; ")
}

// withholdOneOfTwo withholds a cause if another pool that the alerts can mean has another cause
// that stands out as much.
func (v *verdict) withholdOneOfTwo(troubles []trouble) {
	if !v.named || v.benign() {
		return
	}
	best := &v.ranked[0]
	for _, t := range troubles {
		if t.scope.Pool != v.view.Scope().Pool && t.cause.ID != best.cause.ID && t.score > best.score-margin {
			v.rivals = append(v.rivals, t)
		}
	}
	if len(v.rivals) > 0 {
		v.named = false
		best.confidence = condition.Round(best.confidence/float64(1+len(v.rivals)), 4)
	}
}
