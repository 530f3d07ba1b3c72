package rules

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

const (
	// decisive is what a cause's own sign weighs: ten to one.
	decisive = 10
	// fitting is how much the alerts have to speak for a cause of which nothing else is known: two
	// to one.
	fitting = 3
)

// askForAlerts takes it back that alerts mean nothing where nobody could look for what they tell
// of: a cause of which such an alert is typical would be named if what was not measured spoke for
// it. It moves up before the first and shares its odds.
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

// silent is what would speak for a cause that single workers have, if it were known of those that
// the alerts are about as it is of others: a GPU that fell off the bus tells nothing more, while
// its neighbours tell that they are well. What these tell then speaks against nothing.
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

// askForRoots takes a name back that may be a consequence's. A surge, longer prompts and lost
// prefixes are changes: where nobody knows how things were before, or an engine does not tell, what
// they lead to stands out, whichever of them it was, and the advice for one makes another worse.
// Those that could have won if it were known move up behind the first and share its odds.
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

// askForTwins takes a name back that a look-alike may have as well: without what tells the two
// apart, the one whose other signs weigh more would be named, whichever of them it was. Those that
// could be ahead if it were known, so that the first would not be named, move up behind it and
// share its odds. What nothing speaks for but common alerts could be anywhere, and counts for
// nothing here, unless its own sign is what could not be looked for.
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

// askForProof takes the name of a cause back of which nobody knows whether what it consists in is
// there. The rest of its signs are others', too.
func (v *verdict) askForProof() {
	if best := &v.ranked[0]; best.unproven != "" {
		v.named, best.confidence = false, round(best.confidence/2, 4)
	}
}

// share takes the name from the first, which others might have as well, and gives each of them the
// same part of its odds.
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

// typical says that an alert tells of what is one of the cause's own signs, and not one of many.
func (w *weighed) typical(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return alerted(s) && w.cause.Explains[s.Symptom] >= typicalOf })
}

// mayBe says that alerts speak for the cause, if no more than for others, and that a sign that
// could not be looked for would decide for it.
func (w *weighed) mayBe(sign float64) bool {
	alerts, _ := w.pull()
	return sign >= decisive && alerts >= fitting
}

// apartBy are the signals without which the cause cannot be told from another.
func (c *Cause) apartBy(other state.Cause) []string {
	for _, l := range c.LookAlikes {
		if l.Cause == other {
			return l.By
		}
	}
	return nil
}

// A swing is what would speak for a cause, and against it, at most, if signals were known that are
// not, and which those are.
type swing struct {
	gain, loss float64
	sign       float64 // the most that one of them would speak for it
	unknown    []string
}

func (s *swing) count(weight float64, unknown []string) {
	s.gain, s.loss, s.sign, s.unknown = s.gain+max(0, weight), s.loss+min(0, weight), max(s.sign, weight), append(s.unknown, unknown...)
}

// swing adds up the evidence that asks for one of the signals and could not be answered, or that
// only counts because nobody could answer when it should not.
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
		case holds && e.Per == "" && len(mute) > 0: // of the others
			sw.count(-e.Weight, mute)
		case !holds && !answered:
			if lacking = append(lacking, mute...); len(lacking) > 0 {
				sw.count(e.Weight, lacking)
				if e.Else != nil {
					sw.count(e.Else.Weight, nil)
				}
			}
		case clear || len(unclear) == 0: // it counts as it is
		case holds:
			sw.count(-e.Weight, unclear)
		case e.Else != nil:
			sw.count(-e.Else.Weight, unclear)
		}
	}
	return sw
}

// inQuestion are the workers whose silence counts: those that a verdict is about, or else the
// alerts, or all.
func (v *view) inQuestion(pods []string) []*group {
	var out []*group
	for _, g := range v.pods {
		if slices.Contains(pods, g.pod) || len(pods) == 0 && (v.alertsAnywhere() || v.alerted[g.pod]) {
			out = append(out, g)
		}
	}
	return out
}

// mute are those of the signals that evidence asks for and that the exporters of one of the
// workers' machines do not tell, as others' do. What an engine does not tell need not be missing: a
// ratio of nothing, the cache of a worker that is never idle.
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
			_, known := e.when.answer(g) // by its other signals
			told := func(o *group) bool { return o.own(s) != nil }
			return (e.Per == "" || !known) && slices.ContainsFunc(g.view.pods, told)
		}
		if slices.ContainsFunc(of, silent) {
			out = append(out, id)
		}
	}
	return out
}

// lacking are those of the signals that an expression asks for and that are not known, now or as
// they were before.
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

// missing names the signals that would have told more of the cause.
func (w *weighed) missing(v *view) []string {
	var out []string
	for _, e := range w.unanswered {
		out = append(out, v.absent(e.when, e.When)...)
	}
	return sortedSet(out)
}

// absent names the signals that an expression lacks, with the reason where one is known.
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

// unmeasured says that an expression asks for a signal that nobody measured.
func (v *view) unmeasured(x *expression, cat *Catalog) bool {
	return slices.ContainsFunc(x.signals, func(id string) bool { return v.unheard(id, cat) })
}

// unheard says that nobody measured a signal. A word that nobody said is none, unless it could not
// be listened for.
func (v *view) unheard(id string, cat *Catalog) bool {
	return v.series(id) == nil && (!cat.spoken[id] || v.whyMissing(id) != "")
}

// untold says that evidence asks for what the engines did not tell: a signal of theirs for which
// the cause has no other, or what any was before.
func (w *weighed) untold(e *Evidence, v *view, cat *Catalog) bool {
	return slices.ContainsFunc(e.when.signals, func(id string) bool {
		s := v.series(id)
		if s == nil {
			instead := func(o *Evidence) bool { // asked only where the signal is not there
				return strings.HasPrefix(o.Unless, id+".value >") || strings.HasPrefix(o.Unless, id+".max >")
			}
			return cat.engines[id] && !v.isTruncated(id) && !slices.ContainsFunc(w.cause.Evidence, instead)
		}
		return s.lacksPast(e.When)
	})
}
