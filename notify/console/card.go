package console

import (
	"fmt"
	"strings"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

type printer struct {
	b      strings.Builder
	colour bool
}

// The SGR codes of the colours.
const (
	red, green, yellow, blue, bold, dim = "31", "32", "33", "34", "1", "2"
)

func (p *printer) paint(code, s string) string {
	if !p.colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func colourOf(m notify.Message) string {
	switch {
	case m.Status == state.StatusResolved:
		return green
	case m.Cause == state.BenignAlert:
		return blue
	case m.Severity == state.Critical:
		return red
	case m.Severity == state.Warning:
		return yellow
	}
	return blue
}

// entry writes one timeline entry, wrapped with a hanging indent.
func (p *printer) entry(m notify.Message, e state.Entry) {
	number := m.Name()
	indent := len(clock) + 2 + len(number) + 2
	for i, l := range wrap(e.Text, width-indent) {
		if i > 0 {
			fmt.Fprintf(&p.b, "%*s%s\n", indent, "", l)
			continue
		}
		fmt.Fprintf(&p.b, "%s  %s  %s\n", p.paint(dim, e.At.UTC().Format(clock)), p.paint(colourOf(m), number), l)
	}
}

// headline writes the incident's present title as one line.
func (p *printer) headline(m notify.Message) {
	text := fmt.Sprintf("now %s: %s", m.Gravity(), m.Title)
	indent := len(clock) + 2
	number := m.Name()
	for i, l := range wrap(text, width-indent-len(number)-2) {
		fmt.Fprintf(&p.b, "%*s%s  %s\n", indent, "",
			p.paint(colourOf(m), fmt.Sprintf("%-*s", len(number), label(i, number))), l)
	}
}

// offers writes the actions that wait for a person.
func (p *printer) offers(m notify.Message) {
	for _, o := range m.Actions {
		if offered(o) {
			p.b.WriteString("\n")
			p.offer(o, m.URL)
			p.b.WriteString("\n")
		}
	}
}

// The number of items of each list on a card. The page has the rest.
const (
	shownEvidence = 3
	shownDo       = 6
	shownAvoid    = 6
)

// card writes the whole incident.
func (p *printer) card(m notify.Message) {
	p.b.WriteString("\n")
	head := strings.ToUpper(string(m.Severity))
	switch {
	case m.Status == state.StatusResolved:
		head = "RESOLVED"
	case m.Cause == state.BenignAlert:
		head = "BENIGN"
	}
	fmt.Fprintf(&p.b, "%s  %s\n", p.paint(colourOf(m)+";"+bold, fmt.Sprintf("■ %s %s", head, m.Name())),
		p.paint(bold, m.Title))
	if m.Status == state.StatusResolved {
		p.resolved(m)
		return
	}
	p.row("where", m.Where)
	if m.Diagnosed {
		p.row("cause", m.Verdict())
	}
	p.row("what", m.What)
	p.row("why", m.Why)
	p.list("do now", shownDo, len(m.Do), func(i int) string { return fmt.Sprintf("%d. %s", i+1, m.Do[i]) })
	p.list("do not", shownAvoid, len(m.Avoid), func(i int) string { return "✗ " + m.Avoid[i] })
	for _, o := range m.Actions {
		p.offer(o, m.URL)
	}
	p.row("escalate", m.Escalate)
	p.row("or else", m.Else)
	p.row("time", m.Time)
	evidence := m.MoreEvidence()
	p.list("evidence", shownEvidence, len(evidence), func(i int) string { return "- " + evidence[i] })
	p.row("checks", checks(m))
	if m.URL != "" {
		p.item("page", m.URL)
	}
	p.b.WriteString("\n")
}

// checks counts the answers of the playbook's checks. The page shows each.
func checks(m notify.Message) string {
	counts := map[string]int{}
	for _, c := range m.Checks {
		counts[c.State]++
	}
	var parts []string
	for _, s := range []string{"bad", "warn", "ok", "info", "unknown"} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], map[string]string{"bad": "bad", "warn": "to watch",
				"ok": "fine", "info": "for you to judge", "unknown": "not measured"}[s]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ")
}

func (p *printer) resolved(m notify.Message) {
	switch {
	case m.MergedInto != "":
		p.row("merged", "into "+m.MergedInto)
	default:
		p.row("ended", m.Ended)
	}
	p.row("where", m.Where)
	if m.Diagnosed {
		p.row("cause", m.Verdict())
	}
	for _, o := range m.Actions {
		if m.MergedInto != "" || !o.Wrote { // the end names the others
			p.row("first aid", strings.TrimSpace(fmt.Sprintf("%s: %s. %s", o.Change, stateName(o.State), o.Result)))
		}
	}
	if m.URL != "" {
		p.item("page", m.URL)
	}
	p.b.WriteString("\n")
}

func (p *printer) offer(o notify.Offer, page string) {
	p.row("first aid", fmt.Sprintf("%s (%s)", o.Change, stateName(o.State)))
	if o.Result != "" {
		p.row("", o.Result)
	}
	if o.NeedsPerson {
		p.row("", "Paramedic leaves this pool alone until a person confirms that it is fixed. Confirm it"+onPage(page)+" with")
		p.item("", "$ paramedic cancel "+string(o.ID))
	}
	if !o.State.BeforeEffect() {
		return
	}
	p.row("", o.Why)
	p.row("", o.Asked())
	if o.Awaits() {
		if !o.ExpiresAt.IsZero() {
			p.row("", "Approve it before "+o.ExpiresAt.UTC().Format(clock)+onPage(page)+" with")
		}
		p.item("", "$ "+o.ApproveCommand())
	} else if o.Command != "" {
		p.item("", "$ "+o.Command)
	}
}

func onPage(page string) string {
	if page == "" {
		return ""
	}
	return " on the page, or"
}

func stateName(s state.ActionState) string {
	if s == state.Proposed {
		return "suggested"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// label returns s for the first line of a list, and otherwise "".
func label(i int, s string) string {
	if i > 0 {
		return ""
	}
	return s
}

// item writes a row without wrapping, so that a command can be copied whole.
func (p *printer) item(name, text string) {
	fmt.Fprintf(&p.b, "  %s  %s\n", p.paint(dim, fmt.Sprintf("%-9s", name)), text)
}

// list writes the first rows, wrapped with a hanging indent, and counts the others.
func (p *printer) list(name string, most, n int, row func(int) string) {
	for i := range min(n, most) {
		line := row(i)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if j := strings.Index(line[indent:], " "); j >= 0 {
			indent += j + len(line[indent+j:]) - len(strings.TrimLeft(line[indent+j:], " "))
		}
		head, rest := line[:indent], line[indent:]
		for k, l := range wrap(rest, width-13-text.Len(head)) {
			if k > 0 {
				head = strings.Repeat(" ", text.Len(head))
			}
			p.item(label(i+k, name), head+l)
		}
	}
	if n > most {
		p.item("", fmt.Sprintf("and %d more on the page", n-most))
	}
}

// row writes a labelled paragraph, or nothing for an empty text.
func (p *printer) row(name, text string) {
	if text == "" {
		return
	}
	for i, l := range wrap(text, width-13) {
		p.item(label(i, name), l)
	}
}

// wrap breaks text between words.
func wrap(s string, limit int) []string {
	if strings.ContainsAny(s, "\t\r\n") || strings.Contains(s, "  ") || strings.TrimSpace(s) != s {
		s = strings.Join(strings.Fields(s), " ")
	}
	var out []string
	begin, end, size := 0, 0, 0 // of the line; size counts characters
	for w := range strings.SplitSeq(s, " ") {
		n := text.Len(w)
		switch {
		case end == 0:
			end, size = len(w), n
		case size+1+n > limit:
			out = append(out, s[begin:end])
			begin = end + 1
			end, size = begin+len(w), n
		default:
			end, size = end+1+len(w), size+1+n
		}
	}
	return append(out, s[begin:end])
}
