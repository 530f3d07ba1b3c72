package playbooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"paramedic/rules/treatment"
	"paramedic/state"
)

// Advise returns the story of an incident with the steps to take and to avoid: the playbook's steps
// in their order, and those of the verdict that the playbook lacks. The verdict's steps go to the
// place that the playbook marks for them, or last. Slack, PagerDuty, the page, the API, the report
// and the terminal all use it, so that they give the same lines.
func (pb Playbook) Advise(in state.Incident, ev state.Evidence) state.Story {
	story, names := in.Diagnosis.Story, scopeNames(in, ev)
	d := dialectOf(names.engine)
	var do, avoid []string
	does := map[string][]string{} // the treatments of each step
	place := -1                   // index of the verdict's steps
	for _, r := range pb.FirstAid {
		if r.Verdict && len(story.Do) > 0 {
			place = len(do)
			continue
		}
		treatments := r.Treatments() // in the words of vLLM
		r.Text, r.When = d.adapt(r.Text), d.adapt(r.When)
		step := names.fill(r.String())
		do, does[step] = append(do, step), treatments
	}
	for _, w := range pb.Worse {
		avoid = append(avoid, names.fill(d.adapt(w)))
	}
	verdicts := d.adaptAll(story.Do)
	for i, step := range verdicts {
		does[step] = append(does[step], treatment.Whole(treatment.In(story.Do[i]))...)
	}
	if place >= 0 { // these steps are for this very incident, so no general step replaces one of them
		story.Do = slices.Insert(do, place, verdicts...)
	} else {
		story.Do = slices.Concat(do, withoutRepeats(do, verdicts))
	}
	story.Avoid = slices.Concat(avoid, withoutRepeats(avoid, d.adaptAll(story.Avoid)))
	story.Do, story.Cautions = heldBack(story.Do, does, story.Cautions)
	if in.Cause() != state.Unknown { // the unknown's story lists signals by ID, and IDs are the same for all engines
		story.What, story.Why = d.adapt(story.What), d.adapt(story.Why)
	}
	return story
}

// Findings returns the incident's findings with the names of its engine.
func Findings(in state.Incident, ev state.Evidence) []state.Finding {
	d := dialectOf(scopeNames(in, ev).engine)
	out := slices.Clone(in.Diagnosis.Findings)
	for i := range out {
		out[i].Text = d.adapt(out[i].Text)
	}
	return out
}

func (d *dialect) adaptAll(list []string) []string {
	var out []string
	for _, l := range list {
		out = append(out, d.adapt(l))
	}
	return out
}

// String returns the step in one line, with its condition. Without the condition, a step for
// another case would read as the next of a sequence.
func (r Remedy) String() string {
	when := strings.TrimSuffix(r.When, ".")
	if when == "" || strings.EqualFold(when, "always") {
		return r.Text
	}
	return fmt.Sprintf("%s [when: %s]", strings.TrimSuffix(r.Text, "."), when)
}

// withoutRepeats returns the lines that none of the other lines already says. Two sources give
// advice on the same cause: the playbook, in its own order, and the verdict's story, which names
// the workers and nodes. If both say the same in other words, a person should read it once.
//
// A line counts as a repetition only if one other line has most of its words, and every identifier,
// number and direction in it. "raise max_num_seqs" never repeats "lower max_num_seqs", and "cordon
// gpu-7" never repeats "cordon the node". In doubt both lines are kept.
func withoutRepeats(of, lines []string) []string {
	known := make([]map[string]float64, len(of))
	for i, s := range of {
		known[i] = keywords(s)
	}
	var out []string
	for _, l := range lines {
		m, told := keywords(l), false
		for _, k := range known {
			told = told || covers(k, m)
		}
		if !told {
			out = append(out, l)
		}
	}
	return out
}

// sameShare is the share of a line's weight that another line needs to repeat it.
const sameShare = 0.33

// identifierWeight is the weight of an identifier, where a word has the weight 1.
const identifierWeight = 2

// covers reports whether one line's keywords cover another's.
func covers(other, line map[string]float64) bool {
	var all, found float64
	for w, weight := range line {
		all += weight
		switch {
		case other[w] > 0:
			found += weight
		case weight > 1:
			return false
		}
	}
	return all > 0 && found >= sameShare*all
}

// keywords returns a line's words without their endings, with their weights. It omits stop words.
func keywords(line string) map[string]float64 {
	out := map[string]float64{}
	for w := range strings.FieldsFuncSeq(line, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	}) {
		w = strings.Trim(strings.ToLower(w), "-_")
		if w == "" || stopWords[w] {
			continue
		}
		if strings.ContainsAny(w, "_0123456789") {
			out[w] = identifierWeight
			continue
		}
		switch w = stem(w); w {
		case "cut", "decreas", "lower", "reduc":
			out["lower"] = identifierWeight
		case "rais", "increas":
			out["raise"] = identifierWeight
		default:
			out[w] = 1
		}
	}
	return out
}

// stem removes endings, so that restart, restarts and restarting are one word.
func stem(w string) string {
	for _, end := range []string{"ing", "ies", "ed", "es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) >= 3 {
			w = rest
			break
		}
	}
	if n := len(w); n > 2 && w[n-1] == w[n-2] {
		w = w[:n-1]
	}
	return w
}

// stopWords are the words that say nothing about what to do.
var stopWords = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(`
		a an the and or of to in on at as is are be it its that this with for by from not no so than then
		one if when while who what which their them they has have only all more most other others first now
		still would can could will do does was were under before after into out up down until there here
		every any but also because each own rather such very per via make makes get gets`) {
		out[w] = true
	}
	return out
}()
