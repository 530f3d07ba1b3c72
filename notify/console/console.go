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
	"sync"

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
