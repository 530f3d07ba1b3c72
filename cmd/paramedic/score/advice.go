package score

import (
	"slices"
	"time"

	"paramedic/playbooks"
	"paramedic/rules/catalog"
	"paramedic/rules/treatment"
	"paramedic/state"
)

// An Adviser compares the advice of a verdict with what makes the true cause worse.
type Adviser struct {
	catalog *catalog.Catalog
	steps   map[state.Cause][][]string // the treatments of each step of the advice
}

// NewAdviser returns an adviser that reads the advice of these causes and playbooks.
func NewAdviser(c *catalog.Catalog, l *playbooks.Library) *Adviser {
	a := &Adviser{c, map[state.Cause][][]string{}}
	for _, cause := range c.Causes() {
		a.steps[cause.ID] = steps(c, l, cause)
	}
	return a
}

// steps returns the treatments of each step that the advice for a cause has: its first aid in
// words, and its playbook's actions.
func steps(c *catalog.Catalog, l *playbooks.Library, cause *catalog.Cause) [][]string {
	var out [][]string
	for _, line := range c.WorstAdvice(cause.Do) {
		out = append(out, treatment.Whole(treatment.In(line)))
	}
	if pb, ok := l.For(state.Diagnosis{Cause: cause.ID, Playbook: cause.Playbook}); ok {
		for _, r := range pb.FirstAid {
			if r.Action != "" {
				out = append(out, r.Treatments())
			}
		}
	}
	return out
}

// Given returns the treatments that an incident advises at a time. Steps that it holds back do not
// count.
func (a *Adviser) Given(in *state.Incident, at time.Time) []string {
	var out []string
	advice := a.steps[in.Cause()]
	cordons := slices.ContainsFunc(advice, func(step []string) bool { return slices.Contains(step, treatment.Cordon) })
	for _, step := range advice {
		if !slices.ContainsFunc(in.Diagnosis.Story.Cautions, func(c state.Caution) bool {
			return treatment.Held(step, c.Treatment, cordons) && (c.Until.IsZero() || at.Before(c.Until))
		}) {
			out = append(out, step...)
		}
	}
	return out
}

// Harmful returns the advice of a verdict that the true cause's entry warns of. Advice that the
// true cause also gives does not count. Nor does a restart if the same advice cordons the node
// first, because the warning is about landing on that node again.
func (a *Adviser) Harmful(verdict state.Cause, given []string, truth string) []string {
	if string(verdict) == truth || verdict == state.Unknown {
		return nil
	}
	own, avoided := slices.Concat(a.steps[state.Cause(truth)]...), a.catalog.Harms(state.Cause(truth))
	var out []string
	for _, t := range given {
		if !slices.Contains(avoided, t) || slices.Contains(own, t) && t != treatment.Restart ||
			t == treatment.Restart && slices.Contains(given, treatment.Cordon) {
			continue
		}
		if line := string(verdict) + " advises to " + t + ", which makes " + truth +
			" worse"; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
