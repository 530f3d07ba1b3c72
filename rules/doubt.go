package rules

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

const (
	// decisive is the weight of a cause's own sign: ten to one.
	decisive = 10
	// fitting is the weight of alerts that a cause needs if nothing else supports it: two to one.
	fitting = 3
)

// askForAlerts withholds the name if an alert is typical of another cause that lacks only
// unmeasured signals. If those signals could lift the other cause over the threshold, it moves to
// the first place, and both share the odds.
func (v *verdict) askForAlerts(in *state.Incident) {
	best := v.ranked[0]
	for i := range v.ranked[1:] {
		w := v.ranked[i+1]
		if !w.typical(in) {
			continue
		}
		if unread := w.unread + w.cause.silent(v.view); unread == 0 || w.score+unread < threshold {
			continue
		}
		v.named, v.unseen = false, true
		v.ranked = slices.Concat([]weighed{w}, slices.Delete(v.ranked, i+1, i+2))
		v.ranked[0].confidence, v.ranked[1].confidence = round(best.confidence/2, 4), round(best.confidence/2, 4)
		v.rival = &v.ranked[1]
		return
	}
}

// silent returns the weight that a cause of single workers could gain if the alerts' workers
// exported what others export. A GPU that fell off the bus exports nothing more, while its
// neighbours look healthy. Evidence against the cause from those neighbours is then taken back.
func (c *Cause) silent(v *view) float64 {
	if v.alertsAnywhere() {
		return 0
	}
	sum, unheard := 0.0, map[string]bool{}
	for _, e := range c.Evidence {
		if e.Weight <= 0 || e.Expects == "" || e.Per == "" || v.ask(e.when, e.Per).answered == 0 {
			continue
		}
		told := slices.ContainsFunc(v.groups(e.Per), func(g *group) bool {
			_, ok := e.when.answer(g)
			return ok && v.isAlerted(g)
		})
		if !told {
			sum += e.Weight
			for _, id := range e.when.signals {
				unheard[id] = true
			}
		}
	}
	for _, e := range c.Evidence {
		ofAll := e.Per == "" && slices.ContainsFunc(e.when.signals, func(id string) bool { return unheard[id] })
		if ofAll && e.Weight < 0 && len(v.ask(e.when, e.Per).hits) > 0 {
			sum -= e.Weight
		}
	}
	return sum
}

// askForRoots withholds a cause that may be the consequence of another. A surge, longer prompts and
// lost prefixes are changes. Without a baseline or an engine's signal, only their consequence
// stands out, and advice for the wrong root makes things worse. Roots that could win with those
// signals move to the next places and share the odds.
func (v *verdict) askForRoots(in *state.Incident) {
	best := &v.ranked[0]
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		gain := w.gain
		if w.typical(in) {
			gain = max(gain, w.unread)
		}
		could := w.score + gain
		if gain > 0 && could >= threshold && could >= best.score+best.loss+margin && w.cause.leadsTo(best.cause.ID, in.Symptoms) {
			v.roots = append(v.roots, w.cause.ID)
		}
	}
	if len(v.roots) > 0 {
		v.share(v.roots)
	}
}

// askForTwins withholds a cause if signals that distinguish it from a look-alike are missing.
// Without them the cause with the heavier other signs would win, right or wrong. Look-alikes that
// could win, or lower the first below the threshold, move up and share its odds. A look-alike that
// only common alerts support does not count, unless its own sign is among the missing signals.
func (v *verdict) askForTwins(in *state.Incident, cat *Catalog) {
	best := &v.ranked[0]
	asked := v.view.inQuestion(best.pods)
	for i := range v.ranked[1:] {
		w := &v.ranked[i+1]
		by := best.cause.apartBy(w.cause.ID)
		its, bests := w.cause.swing(by, v.view, cat, asked), best.cause.swing(by, v.view, cat, asked)
		most, least, unknown := w.score+its.gain, best.score+bests.loss, len(its.unknown)+len(bests.unknown) > 0
		wins := most >= threshold && most > least
		falls := least < threshold && most > max(least, 0)
		if unknown && (wins || falls) && (w.supported() || w.typical(in) || w.mayBe(its.sign)) {
			v.twins, v.lacks = append(v.twins, w.cause.ID), slices.Concat(v.lacks, its.unknown, bests.unknown)
		}
	}
	if len(v.twins) > 0 {
		v.lacks = sortedSet(v.lacks)
		v.share(v.twins)
	}
}

// askForProof withholds a cause if its needed evidence has no answer. Its other signs are also
// those of other causes.
func (v *verdict) askForProof() {
	if best := &v.ranked[0]; best.unproven != "" {
		v.named, best.confidence = false, round(best.confidence/2, 4)
	}
}

// share withholds the first cause and divides its odds evenly among it and the others.
func (v *verdict) share(others []state.Cause) {
	v.named = false
	place := func(w weighed) int {
		if slices.Contains(others, w.cause.ID) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(v.ranked[1:], func(a, b weighed) int { return place(a) - place(b) })
	part := round(v.ranked[0].confidence/float64(len(others)+1), 4)
	for i := range len(others) + 1 {
		v.ranked[i].confidence = part
	}
	v.rival = &v.ranked[1]
}

// typical reports whether an alert has a symptom that is typical of the cause, not common to many.
func (w *weighed) typical(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return alerted(s) && w.cause.Explains[s.Symptom] >= typicalOf })
}

// mayBe reports whether alerts support the cause and a missing sign of this weight would decide for
// it.
func (w *weighed) mayBe(sign float64) bool {
	alerts, _ := w.pull()
	return sign >= decisive && alerts >= fitting
}

// apartBy returns the signals that are needed to distinguish the cause from another.
func (c *Cause) apartBy(other state.Cause) []string {
	for _, l := range c.LookAlikes {
		if l.Cause == other {
			return l.By
		}
	}
	return nil
}

// A swing holds the most that missing signals could add for and against a cause, and names those
// signals.
type swing struct {
	gain, loss float64
	sign       float64 // the largest single weight that could be added
	unknown    []string
}

func (s *swing) count(weight float64, unknown []string) {
	s.gain, s.loss, s.sign, s.unknown = s.gain+max(0, weight), s.loss+min(0, weight), max(s.sign, weight), append(s.unknown, unknown...)
}

// swing adds up evidence that reads one of the signals and has no answer. It also counts evidence
// that holds only because such a signal is missing.
func (c *Cause) swing(by []string, v *view, cat *Catalog, of []*group) swing {
	var sw swing
	for _, e := range c.Evidence {
		lacking, mute := v.lacking(by, e.when, e.When, cat), cat.mute(by, e, of)
		idle, clear, unclear := false, true, []string(nil)
		if e.unless != nil {
			idle, clear = e.unless.answer(v.whole)
			unclear = v.lacking(by, e.unless, e.Unless, cat)
		}
		if clear && idle || len(lacking)+len(mute)+len(unclear) == 0 {
			continue
		}
		asked := v.ask(e.when, e.Per)
		holds, answered := len(asked.hits) > 0, asked.answered > 0 && asked.answered == v.engines(v.groups(e.Per)) && len(mute) == 0
		switch {
		case holds && e.Per == "" && len(mute) > 0: // only healthy neighbours answered
			sw.count(-e.Weight, mute)
		case !holds && !answered:
			if lacking = append(lacking, mute...); len(lacking) > 0 {
				sw.count(e.Weight, lacking)
				if e.Else != nil {
					sw.count(e.Else.Weight, nil)
				}
			}
		case clear || len(unclear) == 0: // it counts regardless of unless
		case holds:
			sw.count(-e.Weight, unclear)
		case e.Else != nil:
			sw.count(-e.Else.Weight, unclear)
		}
	}
	return sw
}

// inQuestion returns the workers whose missing signals matter: those of the verdict, or else those
// of the alerts, or else all.
func (v *view) inQuestion(pods []string) []*group {
	var out []*group
	for _, g := range v.pods {
		if slices.Contains(pods, g.pod) || len(pods) == 0 && (v.alertsAnywhere() || v.alerted[g.pod]) {
			out = append(out, g)
		}
	}
	return out
}

// mute returns the signals of the evidence that an exporter reports for other workers, but not for
// one of these. Signals of engines do not count, since they may be missing for a reason: a ratio of
// zero requests, or the cache of a worker that is never idle.
func (c *Catalog) mute(signals []string, e *Evidence, of []*group) []string {
	var out []string
	for _, id := range signals {
		if c.engines[id] || c.spoken[id] || !slices.Contains(e.when.signals, id) {
			continue
		}
		silent := func(g *group) bool {
			s := g.view.series(id)
			if s == nil || g.own(s) != nil {
				return false
			}
			_, known := e.when.answer(g) // from its other signals
			told := func(o *group) bool { return o.own(s) != nil }
			return (e.Per == "" || !known) && slices.ContainsFunc(g.view.pods, told)
		}
		if slices.ContainsFunc(of, silent) {
			out = append(out, id)
		}
	}
	return out
}

// lacking returns the signals of an expression that are missing now, or whose past is missing.
func (v *view) lacking(signals []string, x *expression, src string, cat *Catalog) []string {
	var out []string
	for _, id := range signals {
		if !slices.Contains(x.signals, id) {
			continue
		}
		if s := v.series(id); v.unheard(id, cat) || s != nil && s.lacksPast(src) {
			out = append(out, id)
		}
	}
	return out
}

// missing lists the signals that the cause's unanswered evidence lacks.
func (w *weighed) missing(v *view) []string {
	var out []string
	for _, e := range w.unanswered {
		out = append(out, v.absent(e.when, e.When)...)
	}
	return sortedSet(out)
}

// absent lists the signals that an expression lacks, with the reason if it is known.
func (v *view) absent(x *expression, src string) []string {
	var out []string
	for _, id := range x.signals {
		s := v.series(id)
		switch {
		case s == nil && v.whyMissing(id) != "":
			out = append(out, fmt.Sprintf("%s (%s)", id, text.Phrase(v.whyMissing(id))))
		case s == nil:
			out = append(out, id)
		case s.lacksPast(src):
			out = append(out, id+" (no baseline)")
		case strings.Contains(src, id+".day_ago") && !s.whole.number("day_ago").ok:
			out = append(out, id+" (no value of a day ago)")
		case strings.Contains(src, id+".week_ago") && !s.whole.number("week_ago").ok:
			out = append(out, id+" (no value of a week ago)")
		}
	}
	return out
}

// unmeasured reports whether an expression reads a signal that was not measured.
func (v *view) unmeasured(x *expression, cat *Catalog) bool {
	return slices.ContainsFunc(x.signals, func(id string) bool { return v.unheard(id, cat) })
}

// unheard reports whether a signal was not measured. A missing word means that no source reported
// one, unless its query failed.
func (v *view) unheard(id string, cat *Catalog) bool {
	return v.series(id) == nil && (!cat.spoken[id] || v.whyMissing(id) != "")
}

// untold reports whether evidence reads a signal of engines that is missing and has no substitute,
// or a signal whose past is missing.
func (w *weighed) untold(e *Evidence, v *view, cat *Catalog) bool {
	return slices.ContainsFunc(e.when.signals, func(id string) bool {
		s := v.series(id)
		if s == nil {
			instead := func(o *Evidence) bool { // evidence that is only evaluated if the signal is missing
				return strings.HasPrefix(o.Unless, id+".value >") || strings.HasPrefix(o.Unless, id+".max >")
			}
			return cat.engines[id] && !v.isTruncated(id) && !slices.ContainsFunc(w.cause.Evidence, instead)
		}
		return s.lacksPast(e.When)
	})
}
