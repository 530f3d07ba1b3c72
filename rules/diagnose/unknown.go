package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

func unknownTitle(c *catalog.Catalog, in *state.Incident) string {
	titles := symptomTitles(c, in)
	if len(titles) == 0 {
		for _, s := range in.Symptoms {
			for _, r := range s.Rules {
				if len(titles) < 2 {
					titles = append(titles, text.Phrase(r))
				}
			}
		}
	}
	what := "trouble"
	if len(titles) > 0 {
		what = strings.Join(titles, ", ")
	}
	if in.Everywhere != "" {
		what = fmt.Sprintf("%s, %d alerts,", what, in.AlertCount)
	}
	return fmt.Sprintf("Undiagnosed: %s on %s", what, text.Phrase(topology.Target(in.Scope)))
}

// strangeStory returns the story for alerts that are about no pool.
func strangeStory(strange string) state.Story {
	strange = text.Phrase(strange)
	return state.Story{
		What:  fmt.Sprintf("The alerts are about %s. No known worker belongs to it.", strange),
		Why:   "The evidence covers known workers only, so it cannot explain these alerts.",
		Do:    []string{fmt.Sprintf("Find out what %s belongs to. Check the scrape's errors there, or the pod's state.", strange)},
		Avoid: []string{"Restarting or tuning engines: no alert points to one."},
	}
}

// unknownStory returns the story of a verdict without a cause: the symptoms, the reason why no
// cause is named, and the first checks.
func unknownStory(c *catalog.Catalog, in *state.Incident, v verdict) state.Story {
	best := &v.ranked[0]
	where := text.Phrase(topology.Target(in.Scope))
	note := evidence.XIDNote(c, evidence.Words{View: v.view})
	if v.view.Empty() {
		return state.Story{
			What:  strings.TrimSpace(fmt.Sprintf("The alerts alone do not show what is wrong with %s. %s", where, note)),
			Why:   "No evidence could be read" + reasons(v.view) + ".",
			Do:    []string{"Check by hand: errors and time to first token first, then KV cache, queue and GPUs."},
			Avoid: []string{"Restarting or tuning engines before anything is measured."},
		}
	}
	s := state.Story{
		What:  strings.TrimSpace(fmt.Sprintf("%s %s", seen(c, in), note)),
		Why:   whyUnknown(c, v),
		Do:    []string{"Check the missing signals first. Then follow the playbook checks of the most likely causes."},
		Avoid: []string{"Acting on the most likely cause as if it were proven."},
		Else:  fmt.Sprintf("To name %s, Paramedic needs %s.", best.cause.ID.Words(), text.Enumerate(briefly(needs(c, v, best)))),
	}
	switch {
	case v.unseen:
		s.Do = []string{"Check by hand for " + v.sign(best) + ": the alert points to it, and it was not measured."}
		s.Avoid = []string{"Closing the alert as harmless because all other signals look healthy."}
	case len(v.twins) > 0:
		s.Do = []string{
			"Check by hand which one it is: " + v.signsOfTwins() + ".",
			"Then follow the playbook of that cause. A fix for one of them can harm the other.",
		}
	case len(v.roots) > 0:
		s.What = strings.TrimSpace(fmt.Sprintf("%s Its root cause is not known. %s",
			evidence.Fill(c, best.cause.What, evidence.Words{View: v.view, Best: best.marks()}), note))
		s.Do = []string{
			"Check what changed before it began: " + v.signsOfRoots() + ".",
			"Look for the change in the gateway's log or graphs. Then follow its playbook: a fix for one cause can harm another.",
		}
	}
	return s
}

// seen writes the symptoms of an incident without a verdict.
func seen(c *catalog.Catalog, in *state.Incident) string {
	where := text.Phrase(topology.Target(in.Scope))
	symptoms := symptomTitles(c, in)
	if len(symptoms) == 0 {
		return fmt.Sprintf("The evidence does not show what is wrong with %s.", where)
	}
	return fmt.Sprintf("On %s, %s. The evidence does not show why.", where, text.Enumerate(symptoms))
}

// symptomTitles returns the titles of the first two symptoms, as within a sentence.
func symptomTitles(c *catalog.Catalog, in *state.Incident) []string {
	var titles []string
	for _, s := range in.Symptoms {
		if t := c.SymptomTitle(s); t != "" && len(titles) < 2 && s.Symptom != state.Unclassified {
			titles = append(titles, state.InSentence(t))
		}
	}
	return titles
}

// whyUnknown says why no cause is named.
func whyUnknown(c *catalog.Catalog, v verdict) string {
	best := &v.ranked[0]
	name := best.cause.ID.Words()
	var out string
	switch {
	case v.unseen:
		out = fmt.Sprintf("The alert is typical of %s, but %s was not measured. All measured signals are healthy, so it can also be "+
			"%s.", name, v.sign(best), v.rival.cause.ID.Words())
	case v.unplaced:
		out = fmt.Sprintf("The evidence points to %s on %s. But no alert names its pool, and another pool is not known to be healthy.",
			name, text.Phrase(topology.Target(v.view.Scope())))
	case len(v.rivals) > 0:
		t := v.rivals[0]
		out = fmt.Sprintf("The evidence points to %s on %s, and as clearly to %s on %s. No alert names its pool.", name,
			text.Phrase(topology.Target(v.view.Scope())), t.cause.ID.Words(), text.Phrase(topology.Target(t.scope)))
	case len(v.roots) > 0:
		out = fmt.Sprintf("The evidence points to %s. It can be the root cause, or a consequence of %s: the signals that decide are "+
			"missing or have no baseline.", name, eitherOf(v.roots))
	case len(v.twins) > 0:
		out = fmt.Sprintf("The evidence points to %s, but it can also be %s. The signals that decide are missing or have no "+
			"baseline: %s.", name, eitherOf(v.twins), titles(c, v.lacks))
	case best.unproven != "" && best.score >= threshold && v.margin >= margin:
		out = fmt.Sprintf("The evidence points to %s, but its proof was not measured: %s.", name, best.unproven)
	case best.score <= 0:
		out = "No cause stands out: more evidence speaks against each cause than for it."
	case best.score < threshold:
		out = fmt.Sprintf("The most likely cause is %s (%s), but the evidence for it is too weak.", name,
			state.FormatShare(best.confidence))
		if v.rival != nil && v.rival.score > 0 {
			out += fmt.Sprintf(" Next is %s (%s).", v.rival.cause.ID.Words(), state.FormatShare(v.rival.confidence))
		}
	default:
		out = fmt.Sprintf("Two causes are too close to choose one: %s (%s) and %s (%s).", name, state.FormatShare(best.confidence),
			v.rival.cause.ID.Words(), state.FormatShare(v.rival.confidence))
	}
	if lacks := best.missing(v.view); len(lacks) > 0 && len(v.twins) == 0 { // those of twins are named above
		out += " Not measured: " + missingTitles(c, lacks) + "."
	}
	return out
}

// missingTitles lists missing signals by title, grouped by reason.
func missingTitles(c *catalog.Catalog, missing []string) string {
	groups := state.Diagnosis{Missing: missing}.MissingByReason()
	out := make([]string, len(groups))
	for i, g := range groups {
		out[i] = titles(c, g.Signals)
		if g.Reason != "" {
			out[i] += " (" + g.Reason + ")"
		}
	}
	if len(out) > 2 {
		return strings.Join(out[:2], "; ") + "; and others"
	}
	return strings.Join(out, "; ")
}

// titles lists signals by their titles, as within a sentence.
func titles(c *catalog.Catalog, ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = state.InSentence(cmp.Or(c.Titles()[id], strings.ReplaceAll(id, "_", " ")))
	}
	return text.List(out)
}

// signsOfRoots returns the sign of each possible root.
func (v verdict) signsOfRoots() string {
	signs := make([]string, len(v.roots))
	for i := range v.roots {
		signs[i] = v.sign(&v.ranked[i+1])
	}
	return strings.Join(signs, "; ")
}

// signsOfTwins returns the signs that distinguish the first cause and its look-alikes.
func (v verdict) signsOfTwins() string {
	best := v.ranked[0].cause
	var signs []string
	for i, id := range v.twins {
		if sign := v.ranked[i+1].cause.Differs(best.ID); sign != "" && len(signs) == 0 {
			signs = append(signs, fmt.Sprintf("%s (%s)", sign, best.ID.Words()))
		}
		signs = append(signs, fmt.Sprintf("%s (%s)", best.Differs(id), id.Words()))
	}
	return strings.Join(signs, "; ")
}

// sign returns the heaviest sign of a cause that could not be read.
func (v verdict) sign(w *causeScore) string {
	for _, u := range w.unmet {
		if u.missing {
			return fmt.Sprintf("%s (%s)", u.expects, w.cause.ID.Words())
		}
	}
	if len(w.unmet) > 0 { // all missing signs were read for others
		return fmt.Sprintf("%s (%s)", w.unmet[0].expects, w.cause.ID.Words())
	}
	return w.cause.ID.Words()
}

// eitherOf joins causes with "or".
func eitherOf(causes []state.Cause) string {
	words := make([]string, len(causes))
	for i, c := range causes {
		words[i] = c.Words()
	}
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return words[0]
}
