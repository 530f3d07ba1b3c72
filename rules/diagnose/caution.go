package diagnose

import (
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/treatment"
	"paramedic/state"
)

const (
	// young is the time for which a verdict has to stand before an engine's arguments change. Most
	// rates look back five minutes, so until then half of their window may be before the onset.
	young = 5 * time.Minute
	// doubt is the lead in decibans that rules a cause out: about 30 to 1.
	doubt = 15
)

// doubts returns the treatments of the incident's verdict that wait in the light of newer evidence,
// which names another cause or none. If that evidence cannot weigh the verdict, what waited before
// still waits.
func doubts(c *catalog.Catalog, in *state.Incident, v verdict, now time.Time) []state.Caution {
	at := slices.IndexFunc(v.ranked, func(w causeScore) bool { return w.cause.ID == in.Cause() })
	if at < 0 {
		return in.Diagnosis.Story.Cautions
	}
	ranked := slices.Concat(v.ranked[at:at+1], v.ranked[:at], v.ranked[at+1:])
	return cautions(c, in, ranked, now)
}

// cautions returns the treatments of the first cause that wait: those that make another possible
// cause worse, or one that a finding leaves open, and changes of an engine's arguments while the
// verdict is young.
func cautions(c *catalog.Catalog, in *state.Incident, ranked []causeScore, now time.Time) []state.Caution {
	best := &ranked[0]
	var out []state.Caution
	since := now
	if in.Cause() == best.cause.ID && !in.NamedAt.IsZero() {
		since = in.NamedAt
	}
	if until := since.Add(young); until.After(now) {
		out = append(out, state.Caution{Treatment: treatment.Tune, Until: until})
	}
	hold := func(cause state.Cause, sign string) {
		for _, t := range c.Harms(cause) {
			if !slices.ContainsFunc(out, func(k state.Caution) bool { return k.Treatment == t && k.Cause != "" }) {
				out = append(out, state.Caution{Treatment: t, Cause: cause, Sign: sign})
			}
		}
	}
	for _, s := range best.seen {
		if s.from != nil && s.from.LeavesOpen != nil && !s.refuted {
			hold(s.from.LeavesOpen.Cause, s.from.LeavesOpen.Sign)
		}
	}
	for i := range ranked[1:] {
		if w := &ranked[i+1]; w.possible(best, in) {
			hold(w.cause.ID, w.unseen())
		}
	}
	return out
}

// unseen returns the strongest sign of the cause that was not measured, or else that was not met.
func (w *causeScore) unseen() string {
	if i := slices.IndexFunc(w.unmet, func(u unobserved) bool { return u.missing }); i >= 0 {
		return w.unmet[i].expects
	}
	if len(w.unmet) > 0 {
		return w.unmet[0].expects
	}
	return ""
}

// possible reports whether the cause explains an alert, and the sum does not rule it out, also if
// all that was not measured spoke for it. Unmeasured signals count only if the cause is a
// look-alike, or a finding or a typical alert supports it. A consequence of the best cause needs no
// treatment of its own.
func (w *causeScore) possible(best *causeScore, in *state.Incident) bool {
	could := w.score
	if w.supported() || w.typical(in) || best.cause.LooksLike(w.cause) {
		could += w.unread
	}
	return could >= best.score-doubt && !best.cause.BringsAbout(w.cause.ID, in.Symptoms) &&
		slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return w.cause.Explains[s.Symptom] > 0 })
}
