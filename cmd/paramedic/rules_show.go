package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

func (c *cli) listRules(dir string) error {
	catalog, err := service.LoadRules(dir)
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.json(catalog.Causes())
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAUSE\tOF A\tEVIDENCE\tFROM\tWHAT")
	for _, cause := range catalog.Causes() {
		from := "built in"
		if !builtIn(cause) {
			from = cause.File
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", cause.ID, cause.Scope, len(cause.Evidence), from, firstSentence(sentence(cause.What)))
	}
	fmt.Fprintln(w, "\nPATHOLOGY\tLOOKS LIKE\t\t\tPUBLISHED AS")
	for _, p := range catalog.Pathologies() {
		fmt.Fprintf(w, "%s\t%s\t\t\t%s\n", p.ID, p.PointsTo[0], p.Published)
	}
	fmt.Fprintf(w, "\nVERDICT\t\t\t\tWHAT\n%s\t\t\t\t%s\n", state.Unknown, firstSentence(unknownWhat))
	return w.Flush()
}

func builtIn(c *catalog.Cause) bool { return strings.HasPrefix(c.File, "catalog/") }

func firstSentence(s string) string {
	first, _, more := strings.Cut(s, ". ")
	if more {
		first += "."
	}
	return first
}

func (c *cli) showRule(dir, id string) error {
	cat, err := service.LoadRules(dir)
	if err != nil {
		return err
	}
	if id == string(state.Unknown) {
		return c.showUnknown(cat)
	}
	cause, ok := cat.Cause(state.Cause(id))
	if i := slices.IndexFunc(cat.Pathologies(), func(p *catalog.Pathology) bool { return p.ID == id }); !ok && i >= 0 {
		return c.showPathology(cat.Pathologies()[i])
	}
	if !ok {
		known := []string{string(state.Unknown)}
		for _, cause := range cat.Causes() {
			known = append(known, string(cause.ID))
		}
		for _, p := range cat.Pathologies() {
			known = append(known, p.ID)
		}
		return fmt.Errorf("there is no cause or pathology %q: %s (`paramedic rules list` lists them)", id, text.DidYouMean(id, known))
	}
	if c.output == "json" {
		return c.json(cause)
	}
	titles := map[state.Symptom]string{}
	for _, s := range cat.Symptoms() {
		titles[s.ID] = s.Title
	}
	p := rulePage{out: c.out, cause: cause, titles: titles, catalog: cat}
	p.head()
	p.symptoms()
	p.chain()
	p.evidence()
	p.lookAlikes()
	p.advice()
	return nil
}

// showPathology prints the explanation of a pathology.
func (c *cli) showPathology(x *catalog.Pathology) error {
	if c.output == "json" {
		return c.json(x)
	}
	p := rulePage{out: c.out}
	fmt.Fprintf(p.out, "%s: a published pattern, shown with a pool's health; it carries no weight in a verdict\n\n", x.ID)
	p.lines(0, "", x.Title+".")
	for _, part := range []struct{ mark, words string }{{"published", x.Published}, {"corrected", x.Corrected}, {"condition", x.When},
		{"shown as", spoken(x.Text)}} {
		if part.words != "" {
			p.lines(11, part.mark, part.words)
		}
	}
	p.lines(11, "looks like", causeNames(x.PointsTo))
	return nil
}

// placeholderWord matches a placeholder in a text of the rules.
var placeholderWord = regexp.MustCompile(`\{([a-z_0-9.]+)\}`)

// spoken replaces placeholders by words, because there is no evidence to fill them with.
func spoken(s string) string {
	return placeholderWord.ReplaceAllStringFunc(s, func(m string) string {
		switch name := m[1 : len(m)-1]; name {
		case "target":
			return "the pool"
		case "of_workers", "xid_beside":
			return ""
		case "xid_name":
			return "<its name>"
		case "xid_meaning":
			return "<what it means>"
		case "xid_asks":
			return "<What it needs>"
		case "xid_note":
			return "What a recent Xid needs, if there is one."
		case "pods":
			return "the worker"
		case "pod", "node", "entity", "rule", "count", "total", "workers":
			return "<" + name + ">"
		default:
			return "<" + strings.TrimSuffix(name, ".value") + ">"
		}
	})
}

// sentence returns a text with words for its placeholders, and a capital first letter.
func sentence(s string) string {
	if s = spoken(s); s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// A rulePage prints the explanation of a cause.
type rulePage struct {
	out     io.Writer
	cause   *catalog.Cause
	titles  map[state.Symptom]string
	catalog *catalog.Catalog
}

const pageWidth = 110

// lines prints a wrapped text at an indent. A mark may precede the first line.
func (p rulePage) lines(indent int, mark, words string) {
	for i, line := range text.Wrap(words, pageWidth-indent) {
		if i > 0 {
			mark = ""
		}
		fmt.Fprintf(p.out, "%-*s%s\n", indent, mark, line)
	}
}

func (p rulePage) head() {
	c := p.cause
	from := "built in"
	if !builtIn(c) {
		from = fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	fmt.Fprintf(p.out, "%s: a cause in a %s (%s; playbook %s)\n\n", c.ID, strings.Replace(c.Scope, "gpu", "GPU", 1), from, c.Playbook)
	p.lines(0, "", sentence(c.What))
	fmt.Fprintln(p.out)
	p.lines(0, "", fmt.Sprintf("Its score is the sum of its prior (%+g dB) and the weights below. The bot names it from %+d dB "+
		"on, if it is %d dB ahead "+
		"of the next cause. 10 dB multiply the odds by ten.", c.Prior, diagnose.Threshold, diagnose.Margin))
	if len(c.LeadsTo) > 0 {
		it := "it"
		if len(c.LeadsTo) > 1 {
			it = "them"
		}
		then := "and then explains " + it + "."
		if len(c.LeadsAfter) > 0 {
			var first []string
			for _, s := range c.LeadsAfter {
				first = append(first, string(s))
			}
			then = "and explains " + it + " if its incident has one of " + strings.Join(first, ", ") + "."
		}
		p.lines(0, "", "It leads to "+causeNames(c.LeadsTo)+", "+then)
	}
}

// symptoms prints the symptoms that the cause explains.
func (p rulePage) symptoms() {
	fmt.Fprintf(p.out, "\nSymptoms (each other symptom costs %d dB)\n", -diagnose.Unexplained)
	ids := make([]state.Symptom, 0, len(p.cause.Explains))
	for id := range p.cause.Explains {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b state.Symptom) int {
		return cmp.Or(cmp.Compare(p.cause.Explains[b], p.cause.Explains[a]), cmp.Compare(a, b))
	})
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, id := range ids {
		fmt.Fprintf(w, "  %+.3g dB\t%s\t%s\n", p.cause.Explains[id], id, p.titles[id])
	}
	w.Flush()
}

// chain prints the signals from the cause to its symptoms.
func (p rulePage) chain() {
	if len(p.cause.Chain) == 0 {
		return
	}
	fmt.Fprintf(p.out, "\n%s (each link is shown if its signal moved)\n", state.ChainTitle)
	for _, l := range p.cause.Chain {
		fmt.Fprintf(p.out, "  %-10s %s %s\n", l.Role, strings.Join(l.Signals, " or "), l.Moves)
	}
}

// evidence prints the evidence for the cause, then that against it, by weight.
func (p rulePage) evidence() {
	list := slices.Clone(p.cause.Evidence)
	slices.SortStableFunc(list, func(a, b *catalog.Evidence) int { return cmp.Compare(abs(b.Weight), abs(a.Weight)) })
	for _, side := range []struct {
		title string
		holds func(float64) bool
	}{{"Evidence for it", func(w float64) bool { return w >= 0 }}, {"Evidence against it", func(w float64) bool { return w < 0 }}} {
		fmt.Fprintf(p.out, "\n%s\n", side.title)
		for _, e := range list {
			if side.holds(e.Weight) {
				p.piece(e)
			}
		}
	}
}

func causeNames(causes []state.Cause) string {
	names := make([]string, len(causes))
	for i, c := range causes {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

func abs(x float64) float64 { return max(x, -x) }

// asks returns what a piece of evidence is measured on.
func asks(e *catalog.Evidence) string {
	if e.Per == "" {
		return ""
	}
	out := "any " + e.Per
	switch e.Of {
	case "all":
		out = "every " + e.Per
	case "minority":
		out = "a minority of the " + e.Per + "s"
	}
	if e.Marks {
		out += ", and names it"
	}
	return " [" + out + "]"
}

func (p rulePage) piece(e *catalog.Evidence) {
	p.lines(10, fmt.Sprintf("  %+.3g dB", e.Weight), sentence(e.Text))
	if e.Why != "" {
		p.lines(18, "          why", e.Why)
	}
	p.lines(18, "          when", e.When+asks(e))
	if e.Unless != "" {
		p.lines(18, "          unless", e.Unless)
	}
	if len(e.Settles) > 0 {
		p.lines(18, "          settles", causeNames(e.Settles)+" cannot replace this verdict later")
	}
	if o := e.LeavesOpen; o != nil {
		p.lines(18, "          open", fmt.Sprintf("%s may still be the cause (%s): steps that make it worse wait", o.Cause, o.Sign))
	}
	if e.Else == nil {
		return
	}
	p.lines(18, "          else", fmt.Sprintf("%+g dB: %s", e.Else.Weight, sentence(e.Else.Text)))
	if e.Else.When != "" {
		p.lines(18, "          …when", e.Else.When)
	}
}

func (p rulePage) lookAlikes() {
	if len(p.cause.LookAlikes) == 0 {
		return
	}
	fmt.Fprintln(p.out, "\nOther causes that look alike, and how they differ")
	for _, l := range p.cause.LookAlikes {
		words := spoken(l.Differs)
		if len(l.By) > 0 {
			words += " (signals: " + strings.Join(l.By, ", ") + ")"
		}
		p.lines(26, "  "+string(l.Cause), words)
	}
}

func (p rulePage) advice() {
	for _, block := range []struct {
		title string
		lines []string
	}{{"First aid", p.cause.Do}, {"Makes it worse", p.cause.Avoid}} {
		if len(block.lines) == 0 {
			continue
		}
		fmt.Fprintf(p.out, "\n%s\n", block.title)
		for _, l := range block.lines {
			if byXid := p.catalog.AdviceByXid(l); byXid != nil {
				p.byXid(byXid)
				continue
			}
			p.lines(4, "  -", spoken(l))
		}
	}
}

// byXid prints the advice that depends on the Xid, below its Xids.
func (p rulePage) byXid(groups []catalog.XidAdvice) {
	for _, g := range groups {
		codes := make([]string, len(g.Xids))
		for i, code := range g.Xids {
			codes[i] = strconv.Itoa(code)
		}
		p.lines(4, "  -", "After Xid "+strings.Join(codes, ", ")+":")
		for _, l := range g.Lines {
			p.lines(8, "      -", spoken(l))
		}
	}
}
