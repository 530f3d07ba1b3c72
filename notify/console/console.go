// Package console tells incidents to the person at the terminal, or to a log file: a card when an incident is opened or its verdict
// changes, and a line for every step in between.
//
// It promises to be readable at a glance, to use colour only where it was told that a person looks, and to keep what came out of an
// alert from steering the terminal. Lines may come twice after a crash; they are never lost.
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
	"time"

	"paramedic/notify"
	"paramedic/state"
)

// width is where text wraps.
const width = 100

// Options are what a Notifier needs.
type Options struct {
	Out    io.Writer
	Colour bool
}

// Terminal says whether a person looks at the writer: it is a terminal, and not told to be plain (https://no-color.org).
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
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

// The handles in the channel's Ref: the last timeline entry written, and what the last card said.
const (
	refThread = "thread"
	refCard   = "card"
)

// Show writes what is new since the channel was last told.
func (n *Notifier) Show(_ context.Context, m notify.Message, told state.Told, _ bool) (map[string]string, error) {
	ref := maps.Clone(told.Ref)
	if ref == nil {
		ref = map[string]string{}
	}
	p := &printer{colour: n.opt.Colour}
	last, _ := strconv.Atoi(ref[refThread])
	for _, e := range m.Entries {
		if e.N > last {
			p.entry(m, e)
			ref[refThread] = strconv.Itoa(e.N)
		}
	}
	if card := digest(m); card != ref[refCard] {
		p.card(m)
		ref[refCard] = card
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := io.WriteString(n.opt.Out, p.b.String()); err != nil {
		return nil, fmt.Errorf("writing to the console: %w", err)
	}
	return ref, nil
}

// digest is what a card is about: a new one is written when it changes, and not for every alert more.
func digest(m notify.Message) string {
	parts := []string{string(m.Cause), string(m.Severity), fmt.Sprint(m.Diagnosed, m.Status == state.StatusResolved), m.MergedInto}
	for _, o := range m.Actions {
		parts = append(parts, string(o.ID), string(o.State))
	}
	return state.Hash(parts...)
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
	case m.Severity == state.Critical:
		return red
	case m.Severity == state.Warning:
		return yellow
	}
	return blue
}

func (p *printer) entry(m notify.Message, e state.Entry) {
	fmt.Fprintf(&p.b, "%s  %s  %s\n", p.paint(dim, e.At.UTC().Format("15:04:05")), p.paint(hue(m), fmt.Sprintf("#%d", m.Number)), e.Text)
}

// card is the incident in full.
func (p *printer) card(m notify.Message) {
	p.b.WriteString("\n")
	head := strings.ToUpper(string(m.Severity))
	if m.Status == state.StatusResolved {
		head = "RESOLVED"
	}
	fmt.Fprintf(&p.b, "%s  %s\n", p.paint(hue(m)+";"+bold, fmt.Sprintf("■ %s #%d", head, m.Number)), p.paint(bold, m.Title))
	p.row("where", m.Where)
	if m.Status == state.StatusResolved {
		p.ended(m)
		return
	}
	p.row("what", m.What)
	if m.Diagnosed {
		p.row("cause", fmt.Sprintf("%s, %s sure", m.Cause, notify.Percent(m.Confidence)))
	}
	p.row("why", m.Why)
	p.row("or else", m.Else)
	for i, f := range m.Evidence {
		if i == 6 {
			break
		}
		p.item(label(i, "evidence"), fmt.Sprintf("%+6.1f  %s", f.Weight, f.Text))
	}
	for i, c := range m.Checks {
		p.item(label(i, "checks"), fmt.Sprintf("%-7s  %s  %s", c.State, c.Ask, c.Answer))
	}
	for i, s := range m.Do {
		p.item(label(i, "do now"), fmt.Sprintf("%d. %s", i+1, s))
	}
	for i, s := range m.Avoid {
		p.item(label(i, "do not"), "✗ "+s)
	}
	for _, o := range m.Actions {
		p.offer(o)
	}
	p.row("escalate", m.Escalate)
	p.row("playbook", m.PlaybookURL)
	p.row("page", m.URL)
	p.b.WriteString("\n")
}

func (p *printer) ended(m notify.Message) {
	switch {
	case m.MergedInto != "":
		p.row("merged", "into "+m.MergedInto)
	default:
		p.row("resolved", fmt.Sprintf("after %s, by %s", notify.Took(m.ResolvedAt.Sub(m.StartedAt)), m.ResolvedBy))
	}
	if m.Diagnosed {
		p.row("cause", fmt.Sprintf("%s, %s sure", m.Cause, notify.Percent(m.Confidence)))
	}
	for _, o := range m.Actions {
		p.row("first aid", strings.TrimSpace(fmt.Sprintf("%s: %s. %s", o.Change, words(o.State), o.Result)))
	}
	p.row("page", m.URL)
	p.b.WriteString("\n")
}

func (p *printer) offer(o notify.Offer) {
	p.row("first aid", fmt.Sprintf("%s  (%s)", o.Change, words(o.State)))
	if o.Result != "" {
		p.row("", o.Result)
	}
	if !o.State.BeforeEffect() {
		return
	}
	p.row("", o.Why)
	for _, g := range o.Stopped() {
		p.row("", fmt.Sprintf("%s says %s: %s", g.Guard, g.Decision, g.Reason))
	}
	if len(o.Guards) > 0 && len(o.Stopped()) == 0 {
		p.row("", fmt.Sprintf("no guard of %d stands against it", len(o.Guards)))
	}
	if o.Awaits() {
		p.item("", "$ paramedic approve "+string(o.ID))
		if !o.ExpiresAt.IsZero() {
			p.row("", "the offer ends at "+o.ExpiresAt.UTC().Format(time.TimeOnly)+" UTC")
		}
	} else if o.Command != "" {
		p.item("", "$ "+o.Command)
	}
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
		case notify.Len(line)+1+notify.Len(w) > limit:
			out = append(out, line)
			line = w
		default:
			line += " " + w
		}
	}
	return append(out, line)
}
