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
	"paramedic/rules/deviation"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

// diagnosis writes a verdict's title, scope and story.
func diagnosis(c *catalog.Catalog, in *state.Incident, ev *state.Evidence, v verdict, now time.Time) state.Diagnosis {
	d := state.Diagnosis{
		Cause: v.name(), Confidence: 1, Scope: copyScope(in.Scope), Findings: []state.Finding{}, Alternatives: []state.Alternative{},
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
		d.Confidence, d.Title, d.Story = v.unknownShare(), unknownTitle(c, in), strangeStory(v.view.Strange())
		return d
	}
	d.Missing = missing(v)
	looked := v.view.Whole()
	if v.named {
		looked = deviation.Subject(v.view, best.pods)
	}
	d.Anomalies, d.Correlations = deviation.Anomalies(c, looked, d.Findings), deviation.Correlations(c, looked, d.Findings)
	if !v.named {
		if !v.view.Guessed() {
			s := v.view.Scope()
			d.Scope.Namespace, d.Scope.Pool, d.Scope.Model = s.Namespace, s.Pool, s.Model
		}
		d.Confidence, d.Likely = v.unknownShare(), likely(c, v)
		d.Title = unknownTitle(c, in)
		d.Alternatives = alternatives(c, v, v.ranked)
		d.Story = unknownStory(c, in, v)
		return d
	}
	cause, p := best.cause, evidence.Words{View: v.view, Best: best.marks()}
	d.Confidence, d.Playbook = best.confidence, cause.Playbook
	d.Scope = best.scope(v.view, in.Scope)
	d.Title = evidence.Fill(c, cause.Title, p)
	for s := range cause.Explains {
		d.Explains = append(d.Explains, s)
	}
	slices.Sort(d.Explains)
	d.LeadsTo = slices.DeleteFunc(slices.Clone(cause.LeadsTo),
		func(id state.Cause) bool { return !cause.BringsAbout(id, in.Symptoms) })
	d.Chain = deviation.Chain(c, v.view, deviation.Fault{Cause: cause, Pods: best.pods, Nodes: best.nodes, GPUs: best.gpus,
		Rests: best.restsOn})
	d.Alternatives = alternatives(c, v, v.ranked[1:])
	d.Story = state.Story{What: evidence.Fill(c, cause.What, p), Why: why(d), Else: otherwise(c, v)}
	d.Story.Do, d.Story.Avoid = evidence.Advise(c, cause.Do, p), evidence.Advise(c, cause.Avoid, p)
	d.Story.Cautions = cautions(c, in, v.ranked, now)
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
	if reason := onlyReason(v); reason != "" {
		return []string{"every signal (" + reason + ")"} // a cluster without any source: one line instead of one per signal
	}
	out := []string{}
	for i := range min(2, len(v.ranked)) {
		out = append(out, v.ranked[i].missing(v.view)...)
	}
	return evidence.SortedSet(out)
}

// fewMissing is the number of missing signals up to which each is listed if no signal was read.
const fewMissing = 8

// onlyReason returns the reason for which all signals of the first and the second cause are
// missing, or "" if some were read, if they are few, or if there are several reasons.
func onlyReason(v verdict) string {
	if !v.view.Empty() {
		return ""
	}
	var room [128]string
	n, only := 0, ""
	for i := range min(2, len(v.ranked)) {
		for _, id := range v.ranked[i].appendUnread(room[:0], v.view) {
			why := v.view.WhyMissing(id)
			if why == "" || n > 0 && why != only && text.Phrase(why) != text.Phrase(only) {
				return ""
			}
			only, n = why, n+1
		}
	}
	if n <= fewMissing {
		return ""
	}
	return text.Phrase(only)
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
			WouldWinIf: wouldWin(c, v, w)})
	}
	return out
}

// wouldWin returns the evidence after which a cause would be named, as a noun phrase.
func wouldWin(c *catalog.Catalog, v verdict, w *causeScore) string {
	all := needs(c, v, w)
	if last := len(all) - 1; last > 0 && (all[last] == moreSigns || all[last] == lessAgainst) {
		all[last] = "and " + all[last]
	}
	return strings.Join(all, "; ")
}

// needed returns the decibans that a cause lacks to be named: a score above the threshold, and a
// lead over every other cause.
func needed(v verdict, w *causeScore) float64 {
	best, rival := &v.ranked[0], 0.0
	for i := range v.ranked {
		if r := &v.ranked[i]; r.cause != w.cause && (w != best || r == v.rival) {
			rival = math.Max(rival, r.score)
		}
	}
	return math.Max(threshold, rival+margin) - w.score
}

// needs lists the evidence after which a cause would be named, as noun phrases. What distinguishes
// it from the first cause comes first, then its heaviest signs.
func needs(c *catalog.Catalog, v verdict, w *causeScore) []string {
	best, need := &v.ranked[0], needed(v, w)
	switch {
	case w == best && len(v.roots) > 0:
		return []string{"a baseline that rules out " + eitherOf(v.roots)}
	case w == best && (v.unplaced || len(v.rivals) > 0):
		return []string{"an alert that names its pool"}
	case w == best && len(v.twins) > 0:
		return []string{"values of " + titles(c, v.lacks) + " that rule out " + eitherOf(v.twins)}
	case slices.Contains(v.twins, w.cause.ID):
		return []string{"values of " + titles(c, v.lacks) + " that confirm it"}
	case w == best && best.unproven != "" && need <= 0:
		return []string{best.unproven + notMeasured}
	}
	var out []string
	sum, all := 0.0, 0.0
	for _, u := range w.unmet {
		all += u.weight
		if len(out) == 3 || sum >= need && len(out) > 0 {
			continue
		}
		item := u.expects
		if u.missing {
			item += notMeasured
		}
		out = append(out, item)
		sum += u.weight
	}
	differs := ""
	if w.cause != best.cause {
		differs = best.cause.Differs(w.cause.ID)
	}
	switch { // without these words the weights would not add up to the need
	case all < need:
		out = append(out, lessAgainst)
	case sum < need, len(out) == 0 && differs == "":
		out = append(out, moreSigns)
	}
	if differs != "" {
		out = append([]string{differs}, out...)
	}
	return out
}

const (
	notMeasured = " (not measured)" // after a sign that no source reported
	moreSigns   = "more of its signs"
	lessAgainst = "less evidence against it"
)

// why writes the strongest findings as sentences: two that support the cause, then the next one of
// either sign. Alerts count only if too few other findings support it.
func why(d state.Diagnosis) string {
	isAlert := func(f state.Finding) bool { return strings.HasPrefix(f.Signal, "symptom:") }
	taken := make([]bool, len(d.Findings))
	var out []string
	take := func(upTo int, wanted func(state.Finding) bool) {
		for i, f := range d.Findings {
			if len(out) < upTo && !taken[i] && wanted(f) {
				taken[i] = true
				out = append(out, reason(f))
			}
		}
	}
	take(2, func(f state.Finding) bool { return f.Weight > 0 && !isAlert(f) })
	take(2, func(f state.Finding) bool { return f.Weight > 0 })
	take(3, func(f state.Finding) bool { return f.Weight < 0 || !isAlert(f) })
	return strings.Join(out, " ")
}

// reason writes a finding as a sentence.
func reason(f state.Finding) string {
	if f.Weight < 0 && !strings.HasPrefix(f.Signal, "symptom:") {
		return "Against it: " + state.InSentence(strings.TrimSuffix(f.Text, ".")) + "."
	}
	return sentence(f.Text)
}

// sentence returns a text with a full stop, and with a capital unless it begins with a name such as
// vllm-0.
func sentence(s string) string {
	s = strings.TrimSuffix(s, ".") + "."
	word, _, _ := strings.Cut(s, " ")
	if strings.ContainsAny(word, "-_/0123456789") {
		return s
	}
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// otherwise names the second cause, and what would have to be seen for it.
func otherwise(c *catalog.Catalog, v verdict) string {
	if len(v.ranked) < 2 {
		return ""
	}
	next := &v.ranked[1]
	return fmt.Sprintf("Next is %s (%s): it needs %s.", next.cause.ID.Words(), state.FormatShare(next.confidence),
		needs(c, v, next)[0])
}

// briefly shortens a list of needed evidence for a sentence.
func briefly(needs []string) []string {
	if len(needs) <= 2 {
		return needs
	}
	rest := moreSigns
	if needs[len(needs)-1] == lessAgainst {
		rest = lessAgainst
	}
	return []string{needs[0], needs[1], rest}
}
