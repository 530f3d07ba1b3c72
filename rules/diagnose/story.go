package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

// diagnosis writes a verdict's title, scope and story.
func diagnosis(c *catalog.Catalog, in *state.Incident, ev *state.Evidence, v verdict, now time.Time) state.Diagnosis {
	d := state.Diagnosis{
		Cause: state.Unknown, Confidence: 1, Scope: copyScope(in.Scope), Findings: []state.Finding{}, Alternatives: []state.Alternative{},
		Missing: []string{}, At: now,
	}
	if ev != nil {
		d.EvidenceAt = ev.At
	}
	if len(v.ranked) == 0 {
		d.Title = "Undiagnosed trouble on " + text.Phrase(topology.Target(in.Scope))
		return d
	}
	best := &v.ranked[0]
	d.Score, d.Prior, d.Margin = best.score, best.cause.Prior, v.margin
	d.Findings = best.findings(c, d.EvidenceAt)
	if v.view.Strange() != "" {
		d.Confidence, d.Title, d.Story = condition.Round(1-best.confidence, 4), unknownTitle(c, in), strangeStory(v.view.Strange())
		return d
	}
	d.Missing = missing(v)
	looked := v.view.Whole()
	if v.named {
		looked = subjectOf(v.view, best.pods)
	}
	d.Anomalies, d.Correlations = anomalies(c, looked, d.Findings), correlations(c, looked, d.Findings)
	if !v.named {
		if !v.view.Guessed() {
			s := v.view.Scope()
			d.Scope.Namespace, d.Scope.Pool, d.Scope.Model = s.Namespace, s.Pool, s.Model
		}
		d.Confidence = condition.Round(1-best.confidence, 4)
		d.Title = unknownTitle(c, in)
		d.Alternatives = alternatives(c, v, v.ranked)
		d.Story = unknownStory(c, in, v)
		return d
	}
	cause, p := best.cause, evidence.Words{View: v.view, Best: best.marks()}
	d.Cause, d.Confidence, d.Playbook = cause.ID, best.confidence, cause.Playbook
	d.Scope = best.scope(v.view, in.Scope)
	d.Title = evidence.Fill(c, cause.Title, p)
	for s := range cause.Explains {
		d.Explains = append(d.Explains, s)
	}
	slices.Sort(d.Explains)
	d.LeadsTo = slices.DeleteFunc(slices.Clone(cause.LeadsTo),
		func(id state.Cause) bool { return !cause.BringsAbout(id, in.Symptoms) })
	d.Alternatives = alternatives(c, v, v.ranked[1:])
	d.Story = state.Story{What: evidence.Fill(c, cause.What, p), Why: why(d), Else: otherwise(c, v)}
	d.Story.Do, d.Story.Avoid = evidence.Advise(c, cause.Do, p), evidence.Advise(c, cause.Avoid, p)
	return d
}

// scope returns what the verdict found broken: the marked pods, and nodes and GPUs if the cause is
// about those.
func (w *causeScore) scope(v *evidence.View, was state.Scope) state.Scope {
	s := copyScope(v.Scope())
	s.Pods = append([]string{}, w.pods...)
	s.Nodes, s.GPUs = []string{}, []string{}
	if w.cause.Scope == "gpu" || w.cause.Scope == "node" {
		s.Nodes = append(s.Nodes, w.nodes...)
		s.GPUs = append(s.GPUs, w.gpus...)
		if len(w.nodes) == 0 {
			s.Nodes = append(s.Nodes, was.Nodes...)
		}
		if len(w.gpus) == 0 && w.cause.Scope == "gpu" {
			s.GPUs = append(s.GPUs, was.GPUs...)
		}
	}
	return s
}

func copyScope(s state.Scope) state.Scope {
	s.Pods, s.Nodes = append([]string{}, s.Pods...), append([]string{}, s.Nodes...)
	s.GPUs = append([]string{}, s.GPUs...)
	return s
}

// missing returns the signals that the first and the second cause lacked.
func missing(v verdict) []string {
	out := []string{}
	for i := range min(2, len(v.ranked)) {
		out = append(out, v.ranked[i].missing(v.view)...)
	}
	if reason := onlyReason(out); v.view.Empty() && len(out) > fewMissing && reason != "" {
		return []string{"every signal " + reason} // a cluster without any source: one line instead of one per signal
	}
	return evidence.SortedSet(out)
}

// fewMissing is the number of missing signals up to which each is listed if no signal was read.
const fewMissing = 8

// onlyReason returns the reason in brackets that all have in common, or "".
func onlyReason(missing []string) string {
	only := ""
	for _, m := range missing {
		_, reason, _ := strings.Cut(m, " ")
		if reason == "" || only != "" && reason != only {
			return ""
		}
		only = reason
	}
	return only
}

// alternatives returns the causes that were not chosen: always the second, others if their
// confidence matters.
func alternatives(c *catalog.Catalog, v verdict, from []causeScore) []state.Alternative {
	out := []state.Alternative{}
	for i := range from {
		w := &from[i]
		if i >= 4 || i >= 2 && w.confidence < 0.005 {
			break
		}
		out = append(out, state.Alternative{Cause: w.cause.ID, Confidence: w.confidence, Score: w.score,
			WouldWinIf: wouldWin(v, w)})
	}
	return out
}

// wouldWin describes the changes after which a cause would be named: a score above the threshold,
// and a lead over every other cause.
func wouldWin(v verdict, w *causeScore) string {
	best := &v.ranked[0]
	if w == best && len(v.roots) > 0 {
		return "how things were before, if that rules out " + eitherOf(v.roots)
	}
	if w == best && v.unplaced {
		return "an alert that says which pool it means"
	}
	if w == best && len(v.twins) > 0 {
		return "what is not known (" + text.List(v.lacks) + "), if it speaks against " + eitherOf(v.twins)
	}
	if slices.Contains(v.twins, w.cause.ID) {
		return "what is not known (" + text.List(v.lacks) + "), if it speaks for it"
	}
	rival := 0.0
	for i := range v.ranked {
		if r := &v.ranked[i]; r.cause != w.cause && (w != best || r == v.rival) {
			rival = math.Max(rival, r.score)
		}
	}
	need := math.Max(threshold, rival+margin) - w.score
	var seen []string
	sum := 0.0
	for _, u := range w.unmet {
		if len(seen) == 3 || sum >= need && len(seen) > 0 {
			break
		}
		item := u.expects
		if u.missing {
			item += " (could not be read)"
		}
		seen = append(seen, fmt.Sprintf("%s, %+g dB", item, u.weight))
		sum += u.weight
	}
	switch { // without these words the weights would not add up to the need
	case sum >= need:
	case len(seen) < len(w.unmet):
		seen = append(seen, "and more of its signs")
	case len(seen) == 0:
		seen = append(seen, "less that speaks against it")
	default:
		seen = append(seen, "and less that speaks against it")
	}
	if differs := best.cause.Differs(w.cause.ID); differs != "" && w.cause != best.cause {
		seen = append([]string{differs}, seen...)
	}
	if len(seen) == 0 {
		return fmt.Sprintf("%s dB more", state.FormatNumber(condition.Round(math.Max(need, 0), 1)))
	}
	return fmt.Sprintf("%s dB more: %s", state.FormatNumber(condition.Round(math.Max(need, 0), 1)), strings.Join(seen, "; "))
}

// why lists the strongest findings and the sum of the weights.
func why(d state.Diagnosis) string {
	var reasons, against []string
	support, oppose := 0.0, 0.0
	for _, f := range d.Findings {
		if f.Weight > 0 {
			support += f.Weight
			if len(reasons) < 3 && !strings.HasPrefix(f.Signal, "symptom:") {
				reasons = append(reasons, f.Text)
			}
		} else {
			oppose += f.Weight
			if len(against) < 1 {
				against = append(against, f.Text)
			}
		}
	}
	if len(reasons) == 0 {
		for _, f := range d.Findings[:min(3, len(d.Findings))] {
			reasons = append(reasons, f.Text)
		}
	}
	out := strings.Join(reasons, ". ")
	if len(against) > 0 {
		out += ". Against it: " + against[0]
	}
	return fmt.Sprintf("%s. Sum: prior %+g, for %+g, against %g = %+g dB.", out, d.Prior, condition.Round(support, 1),
		condition.Round(oppose, 1), d.Score)
}

// otherwise names the second cause.
func otherwise(c *catalog.Catalog, v verdict) string {
	if len(v.ranked) < 2 {
		return ""
	}
	next := &v.ranked[1]
	return fmt.Sprintf("Next is %s (%s %%). It would win with %s.", next.cause.ID,
		state.FormatNumber(condition.Round(min(next.confidence*100, 99), 1)), wouldWin(v, next))
}

func unknownTitle(c *catalog.Catalog, in *state.Incident) string {
	var titles []string
	for _, s := range in.Symptoms {
		if t := c.SymptomTitle(s); t != "" && len(titles) < 2 && s.Symptom != state.Unclassified {
			titles = append(titles, midSentence(t))
		}
	}
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
		What:  fmt.Sprintf("The alerts are about %s, and no known worker belongs to it.", strange),
		Why:   "How the workers are says nothing of what is not theirs.",
		Do:    []string{fmt.Sprintf("Find out what %s belongs to, and look there: the scrape's own errors, or the pod's state.", strange)},
		Avoid: []string{"Restarting or tuning engines: nothing says that one of them is meant."},
	}
}

func unknownStory(c *catalog.Catalog, in *state.Incident, v verdict) state.Story {
	best := &v.ranked[0]
	where := text.Phrase(topology.Target(in.Scope))
	note := evidence.XIDNote(c, evidence.Words{View: v.view})
	if v.view.Empty() {
		return state.Story{
			What:  strings.TrimSpace(fmt.Sprintf("What is wrong with %s cannot be told from the alerts alone. %s", where, note)),
			Why:   "No evidence could be gathered" + reasons(v.view) + ".",
			Do:    []string{"Check by hand what the alerts say: errors and time to first token first, then KV cache, queue and GPUs."},
			Avoid: []string{"Restarting or tuning engines before anything has been measured."},
		}
	}
	s := state.Story{
		What:  strings.TrimSpace(fmt.Sprintf("The evidence does not decide what is wrong with %s. %s", where, note)),
		Do:    []string{"Look at the evidence and at what is missing; the playbooks of the alternatives say what to check next."},
		Avoid: []string{"Acting on the leading alternative as if it were proven."},
	}
	if len(v.roots) > 0 {
		s.What = strings.TrimSpace(fmt.Sprintf("%s What brought it is not known. %s",
			evidence.Fill(c, best.cause.What, evidence.Words{View: v.view, Best: best.marks()}), note))
		s.Do = []string{
			"Find out what changed before it began: " + v.signsOfRoots() + ".",
			"Look for it in the gateway's log or graphs; then follow the playbook of what changed, for what helps one of them harms " +
				"another.",
		}
	}
	if len(v.twins) > 0 {
		s.Do = []string{
			"Find out by hand which it is: " + v.signsOfTwins() + ".",
			"Then follow the playbook of that one, for what helps one of them may harm the other.",
		}
	}
	if v.unseen {
		s.Do = []string{"Look by hand for " + v.sign(best) + ": it could not be read, and the alert tells of it."}
		s.Avoid = []string{"Taking the alert for one that means nothing, because nothing else is seen."}
	}
	switch {
	case v.unseen:
		s.Why = fmt.Sprintf("The alert is typical of %s, and %s could not be read. All that was read is well: it may "+
			"as well be %s.", best.cause.ID, v.sign(best), v.rival.cause.ID)
	case v.unplaced:
		s.Why = fmt.Sprintf("Most speaks for %s on %s (%+g dB), but the alerts do not say which pool they mean, and "+
			"another is not known to be healthy.", best.cause.ID, text.Phrase(topology.Target(v.view.Scope())), best.score)
	case len(v.roots) > 0:
		s.Why = fmt.Sprintf("What is seen is %s (%+g dB). Whether it is the root, or %s brought it, cannot be told: "+
			"what would tell was not measured, or not before it began.", best.cause.ID, best.score, eitherOf(v.roots))
	case len(v.twins) > 0:
		s.Why = fmt.Sprintf("Most speaks for %s (%+g dB). It may as well be %s: what tells them apart was not "+
			"measured, or not before it began (%s).", best.cause.ID, best.score, eitherOf(v.twins), text.List(v.lacks))
	case best.unproven != "" && best.score >= threshold && v.margin >= margin:
		s.Why = fmt.Sprintf("Most speaks for %s (%+g dB), but nobody knows whether there is what it consists in: %s.",
			best.cause.ID, best.score, best.unproven)
	case best.score <= 0:
		s.Why = fmt.Sprintf("No cause stands out: more speaks against each than for it (%s, the best, is at %+g dB; "+
			"%d are needed).", best.cause.ID, best.score, threshold)
	case best.score < threshold:
		s.Why = fmt.Sprintf("The leading cause, %s, reaches %+g dB; %d are needed to name one.", best.cause.ID,
			best.score, threshold)
		if v.rival != nil && v.rival.score > 0 {
			s.Why += fmt.Sprintf(" Next is %s (%+g dB).", v.rival.cause.ID, v.rival.score)
		}
	default:
		s.Why = fmt.Sprintf("%s (%+g dB) is only %g dB ahead of %s; %d are needed to choose.", best.cause.ID,
			best.score, v.margin, v.rival.cause.ID, margin)
	}
	if lacks := best.missing(v.view); len(lacks) > 0 {
		s.Why += " Missing: " + text.List(lacks) + "."
	}
	s.Else = fmt.Sprintf("%s would be named with %s.", best.cause.ID, wouldWin(v, best))
	return s
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
			signs = append(signs, fmt.Sprintf("%s (%s)", sign, best.ID))
		}
		signs = append(signs, fmt.Sprintf("%s (%s)", best.Differs(id), id))
	}
	return strings.Join(signs, "; ")
}

// sign returns the heaviest sign of a cause that could not be read.
func (v verdict) sign(w *causeScore) string {
	for _, u := range w.unmet {
		if u.missing {
			return fmt.Sprintf("%s (%s)", u.expects, w.cause.ID)
		}
	}
	if len(w.unmet) > 0 { // all missing signs were read for others
		return fmt.Sprintf("%s (%s)", w.unmet[0].expects, w.cause.ID)
	}
	return string(w.cause.ID)
}

// eitherOf joins causes with "or".
func eitherOf(causes []state.Cause) string {
	words := make([]string, len(causes))
	for i, c := range causes {
		words[i] = string(c)
	}
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return words[0]
}

// midSentence returns a title for use within a sentence: without its capital, unless it begins with
// an abbreviation such as KV.
func midSentence(title string) string {
	first, n := utf8.DecodeRuneInString(title)
	second, _ := utf8.DecodeRuneInString(title[n:])
	if !unicode.IsUpper(first) || unicode.IsUpper(second) {
		return title
	}
	return string(unicode.ToLower(first)) + title[n:]
}
