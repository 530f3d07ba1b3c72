package playbooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"paramedic/state"
)

// Advise says in the story of an incident what to do now and what not to do: the playbook's steps
// in their order, and what the verdict says and the playbook does not, where the playbook has a
// place for it, or last. It is the one place where the two meet, so that Slack, PagerDuty, the
// page, the API, the report and the terminal all give the same lines.
func (pb Playbook) Advise(in state.Incident, ev state.Evidence) state.Story {
	story, names := in.Diagnosis.Story, scopeNames(in, ev)
	d := dialectOf(names.engine)
	var do, avoid []string
	place := -1 // of the verdict's steps
	for _, r := range pb.FirstAid {
		if r.Verdict && len(story.Do) > 0 {
			place = len(do)
			continue
		}
		r.Text, r.When = d.line(r.Text), d.line(r.When)
		do = append(do, names.fill(r.String()))
	}
	for _, w := range pb.Worse {
		avoid = append(avoid, names.fill(d.line(w)))
	}
	if place >= 0 { // they are the steps for this very trouble: nothing general takes the place of one
		story.Do = slices.Insert(do, place, d.lines(story.Do)...)
	} else {
		story.Do = slices.Concat(do, unsaid(do, d.lines(story.Do)))
	}
	story.Avoid = slices.Concat(avoid, unsaid(avoid, d.lines(story.Avoid)))
	if in.Cause() != state.Unknown { // that story lists signals by their IDs, which are the same for all engines
		story.What, story.Why = d.line(story.What), d.line(story.Why)
	}
	return story
}

// Findings are the incident's findings in the words of its engine.
func Findings(in state.Incident, ev state.Evidence) []state.Finding {
	d := dialectOf(scopeNames(in, ev).engine)
	out := slices.Clone(in.Diagnosis.Findings)
	for i := range out {
		out[i].Text = d.line(out[i].Text)
	}
	return out
}

func (d *dialect) lines(list []string) []string {
	var out []string
	for _, l := range list {
		out = append(out, d.line(l))
	}
	return out
}

// String is the step in one line. The condition belongs to it: steps that are for another case must
// not read as the next of a sequence.
func (r Remedy) String() string {
	when := strings.TrimSuffix(r.When, ".")
	if when == "" || strings.EqualFold(when, "always") {
		return r.Text
	}
	return fmt.Sprintf("%s [when: %s]", strings.TrimSuffix(r.Text, "."), when)
}

// unsaid are the lines that none of what was said says already. Two sources give advice on the same
// cause: the playbook, in its own order, and the verdict's story, which names the workers and nodes
// at hand. Where both say the same in other words a person under stress should read it once.
//
// A line counts as said only where one other line has most of its words, and every identifier,
// number and direction in it: "raise max_num_seqs" is never the same advice as "lower
// max_num_seqs", nor "cordon gpu-7" as "cordon the node". In doubt both are kept.
func unsaid(said, lines []string) []string {
	known := make([]map[string]float64, len(said))
	for i, s := range said {
		known[i] = meaning(s)
	}
	var out []string
	for _, l := range lines {
		m, told := meaning(l), false
		for _, k := range known {
			told = told || covers(k, m)
		}
		if !told {
			out = append(out, l)
		}
	}
	return out
}

// enough is the share of a line's weight that another has to have to say the same.
const enough = 0.33

// identifierWeight is how much more an identifier tells than a word.
const identifierWeight = 2

func covers(said, line map[string]float64) bool {
	var all, found float64
	for w, weight := range line {
		all += weight
		switch {
		case said[w] > 0:
			found += weight
		case weight > 1:
			return false
		}
	}
	return all > 0 && found >= enough*all
}

// meaning are a line's telling words without their endings, and what each weighs.
func meaning(line string) map[string]float64 {
	out := map[string]float64{}
	for w := range strings.FieldsFuncSeq(line, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	}) {
		w = strings.Trim(strings.ToLower(w), "-_")
		if w == "" || filler[w] {
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

// stem takes the endings off that do not matter here: restart, restarts and restarting are one
// word.
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

// filler are the words that say nothing about what to do.
var filler = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(`a an the and or of to in on at as is are be it its that this with for by from not no so than then one if when while
		who what which their them they has have only all more most other others first now still would can could will do does was were under before after
		into out up down until there here every any but also because each own rather such very per via make makes get gets`) {
		out[w] = true
	}
	return out
}()
