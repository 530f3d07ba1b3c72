// Package console tells incidents to the person at the terminal, or to a log file: a card once an
// incident has a verdict or another one, and a line for every step in between. What was said is not
// said again: a change of the wording is a line, first aid that waits for a person is a few.
//
// It promises to be readable at a glance and on 80 columns, to use colour only where it was told
// that a person looks, and to keep what came out of an alert from steering the terminal. Lines may
// come twice after a crash; they are never lost.
package console

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// width is where text wraps: the terminals of a pager's laptop are no wider.
const width = 80

// clock is how times of the day are written.
const clock = "15:04:05 UTC"

// Options are what a Notifier needs.
type Options struct {
	Out    io.Writer
	Colour bool
}

// Terminal says whether a person looks at the writer who wants colours: it is a terminal, and not
// told to be plain (https://no-color.org).
func Terminal(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && Attended(w) }

// Attended says whether a person looks at the writer: it is a terminal, and one where a line can be
// written over.
func Attended(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A Notifier writes incidents as text. It is safe for concurrent use.
type Notifier struct {
	opt Options
	mu  sync.Mutex
}

var _ notify.Notifier = (*Notifier)(nil)

// New makes a notifier.
func New(opt Options) *Notifier { return &Notifier{opt: opt} }

// The handles in the channel's Ref: the last timeline entry written, and what the last card,
// headline and offers said.
const (
	refThread = "thread"
	refCard   = "card"
	refHead   = "head"
	refOffers = "offers"
)

// Show writes what is new since the channel was last told.
func (n *Notifier) Show(_ context.Context, m notify.Message, told state.Told, _ bool) (map[string]string, error) {
	ref := maps.Clone(told.Ref)
	if ref == nil {
		ref = map[string]string{}
	}
	p := &printer{colour: n.opt.Colour}
	news := map[string]string{refCard: verdict(m), refHead: headline(m), refOffers: offers(m)}
	card := news[refCard] != ref[refCard]
	offered := !card && news[refOffers] != ref[refOffers]
	last, _ := strconv.Atoi(ref[refThread])
	for _, e := range m.Entries {
		if e.N <= last {
			continue
		}
		ref[refThread] = strconv.Itoa(e.N)
		if !offered || !waits(m, e.Action) { // the offer itself says more
			p.entry(m, e)
		}
	}
	switch {
	case card:
		p.card(m)
	case news[refHead] != ref[refHead]:
		p.headline(m)
	}
	if offered {
		p.offers(m)
	}
	maps.Copy(ref, news)
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := io.WriteString(n.opt.Out, p.b.String()); err != nil {
		return nil, fmt.Errorf("writing to the console: %w", err)
	}
	return ref, nil
}

// verdict is what a card is about: a new one is written when it changes, and not for every alert
// more.
func verdict(m notify.Message) string {
	return state.Hash(string(m.Cause), fmt.Sprint(m.Diagnosed, m.Status == state.StatusResolved), m.MergedInto)
}

// headline is what a line is written for when nothing more has changed.
func headline(m notify.Message) string { return state.Hash(m.Title, string(m.Severity)) }

// offers is what waits for a person.
func offers(m notify.Message) string {
	var parts []string
	for _, o := range m.Actions {
		if offered(o) {
			parts = append(parts, string(o.ID), string(o.State), o.PlanHash)
		}
	}
	return state.Hash(parts...)
}

// offered reports whether a person is asked to decide on an action, to do it, or to see to it.
func offered(o notify.Offer) bool {
	return o.Awaits() || o.State == state.Proposed || o.NeedsPerson
}

// waits says whether an action is on offer now.
func waits(m notify.Message, id state.ActionID) bool {
	for _, o := range m.Actions {
		if o.ID == id {
			return offered(o)
		}
	}
	return false
}

type printer struct {
	b      strings.Builder
	colour bool
}

// The colours, as SGR codes.
const (
	red, green, yellow, blue, bold, dim = "31", "32", "33", "34", "1", "2"
)

func (p *printer) paint(code, s string) string {
	if !p.colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func hue(m notify.Message) string {
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

// entry is one step, wrapped under its own beginning.
func (p *printer) entry(m notify.Message, e state.Entry) {
	number := m.Name()
	indent := len(clock) + 2 + len(number) + 2
	for i, l := range wrap(e.Text, width-indent) {
		if i > 0 {
			fmt.Fprintf(&p.b, "%*s%s\n", indent, "", l)
			continue
		}
		fmt.Fprintf(&p.b, "%s  %s  %s\n", p.paint(dim, e.At.UTC().Format(clock)), p.paint(hue(m), number), l)
	}
}

// headline says in a line how the incident reads now.
func (p *printer) headline(m notify.Message) {
	text := fmt.Sprintf("now %s: %s", m.Severity, m.Title)
	if m.Diagnosed && m.Cause != state.Unknown {
		text += ", " + state.FormatShare(m.Confidence) + " sure"
	}
	indent := len(clock) + 2
	number := m.Name()
	for i, l := range wrap(text, width-indent-len(number)-2) {
		fmt.Fprintf(&p.b, "%*s%s  %s\n", indent, "",
			p.paint(hue(m), fmt.Sprintf("%-*s", len(number), label(i, number))), l)
	}
}

// offers are the actions that wait for a person.
func (p *printer) offers(m notify.Message) {
	for _, o := range m.Actions {
		if offered(o) {
			p.b.WriteString("\n")
			p.offer(o, m.URL)
			p.b.WriteString("\n")
		}
	}
}

// How much of each list a card shows; the page has the rest.
const (
	shownEvidence = 5
	shownDo       = 6
	shownAvoid    = 6
)

// card is the incident in full.
func (p *printer) card(m notify.Message) {
	p.b.WriteString("\n")
	head := strings.ToUpper(string(m.Severity))
	switch {
	case m.Status == state.StatusResolved:
		head = "RESOLVED"
	case m.Cause == state.BenignAlert:
		head = "BENIGN"
	}
	fmt.Fprintf(&p.b, "%s  %s\n", p.paint(hue(m)+";"+bold, fmt.Sprintf("■ %s %s", head, m.Name())),
		p.paint(bold, m.Title))
	p.row("where", m.Where)
	if m.Status == state.StatusResolved {
		p.ended(m)
		return
	}
	p.row("what", m.What)
	if m.Diagnosed {
		p.row("cause", cause(m))
	}
	p.row("why", m.Why)
	p.row("or else", m.Else)
	p.row("time", m.Time)
	p.list("evidence", shownEvidence, len(m.Evidence),
		func(i int) string { return fmt.Sprintf("%+5.1f  %s", m.Evidence[i].Weight, m.Evidence[i].Text) })
	p.row("checks", checks(m))
	p.list("do now", shownDo, len(m.Do), func(i int) string { return fmt.Sprintf("%d. %s", i+1, m.Do[i]) })
	p.list("do not", shownAvoid, len(m.Avoid), func(i int) string { return "✗ " + m.Avoid[i] })
	for _, o := range m.Actions {
		p.offer(o, m.URL)
	}
	p.row("escalate", m.Escalate)
	if m.URL != "" {
		p.item("page", m.URL)
	}
	p.b.WriteString("\n")
}

func cause(m notify.Message) string {
	if m.Cause == state.Unknown {
		return "unknown"
	}
	return fmt.Sprintf("%s, %s sure", m.Cause, state.FormatShare(m.Confidence))
}

// checks counts the playbook's answers; the page has each.
func checks(m notify.Message) string {
	counts := map[string]int{}
	for _, c := range m.Checks {
		counts[c.State]++
	}
	var parts []string
	for _, s := range []string{"bad", "warn", "ok", "info", "unknown"} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], map[string]string{"bad": "bad", "warn": "doubtful",
				"ok": "fine", "info": "for you to judge", "unknown": "not measured"}[s]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "of the playbook: " + strings.Join(parts, ", ")
}

func (p *printer) ended(m notify.Message) {
	switch {
	case m.MergedInto != "":
		p.row("merged", "into "+m.MergedInto)
	default:
		p.row("resolved", fmt.Sprintf("after %s, by %s", notify.Took(m.ResolvedAt.Sub(m.StartedAt)), m.ResolvedBy))
	}
	if m.Diagnosed {
		p.row("cause", cause(m))
	}
	for _, o := range m.Actions {
		p.row("first aid", strings.TrimSpace(fmt.Sprintf("%s: %s. %s", o.Change, words(o.State), o.Result)))
	}
	if m.URL != "" {
		p.item("page", m.URL)
	}
	p.b.WriteString("\n")
}

func (p *printer) offer(o notify.Offer, page string) {
	p.row("first aid", fmt.Sprintf("%s (%s)", o.Change, words(o.State)))
	if o.Result != "" {
		p.row("", o.Result)
	}
	if o.NeedsPerson {
		p.row("", "The pool gets no other first aid until a person has seen to it, and says so"+onPage(page)+" with")
		p.item("", "$ paramedic cancel "+string(o.ID))
	}
	if !o.State.BeforeEffect() {
		return
	}
	p.row("", o.Why)
	for _, g := range o.Stopped() {
		p.row("", fmt.Sprintf("%s says %s: %s", g.Guard, g.Decision, g.Reason))
	}
	if len(o.Guards) > 0 && len(o.Stopped()) == 0 {
		p.row("", fmt.Sprintf("none of its %d guards stands against it", len(o.Guards)))
	}
	if o.Awaits() {
		if !o.ExpiresAt.IsZero() {
			p.row("", "It waits for a person until "+o.ExpiresAt.UTC().Format(clock)+". Approve it"+onPage(page)+" with")
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

func words(s state.ActionState) string {
	if s == state.Proposed {
		return "suggested"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// label names only the first line of a list.
func label(i int, s string) string {
	if i > 0 {
		return ""
	}
	return s
}

// item is a row that is never wrapped: a command has to be copied whole.
func (p *printer) item(name, text string) {
	fmt.Fprintf(&p.b, "  %s  %s\n", p.paint(dim, fmt.Sprintf("%-9s", name)), text)
}

// list shows the first of a list, wrapped under their own beginnings, and counts the others.
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

// row is a labelled paragraph; nothing where there is no text.
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
	var out []string
	line := ""
	for w := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = w
		case text.Len(line)+1+text.Len(w) > limit:
			out = append(out, line)
			line = w
		default:
			line += " " + w
		}
	}
	return append(out, line)
}
