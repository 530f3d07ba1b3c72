// Package console writes incidents to a terminal or a log file. It writes a card at each new
// verdict, and a line for each step in between. It writes nothing twice: a new wording is one line,
// and first aid that waits for a person is a few.
//
// The output fits 80 columns. It has colours only if the caller asked for them. Text from alerts
// cannot control the terminal. After a crash, lines may be repeated; none is lost.
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

// width is the column at which text wraps, for the terminal of a small laptop.
const width = 80

// clock is the format of a time of day.
const clock = "15:04:05 UTC"

// Options configure a Notifier.
type Options struct {
	Out    io.Writer
	Colour bool
}

// Terminal reports whether the writer should get colours: it is a terminal, and NO_COLOR is not set
// (https://no-color.org).
func Terminal(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && Attended(w) }

// Attended reports whether the writer is a terminal that can overwrite a line.
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

// New returns a notifier.
func New(opt Options) *Notifier { return &Notifier{opt: opt} }

// The handles in the channel's Ref: the last timeline entry that was written, and digests of the
// last card, headline and offers.
const (
	refThread = "thread"
	refCard   = "card"
	refHead   = "head"
	refOffers = "offers"
)

// Show writes what is new since the last message on the channel.
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
		if !offered || !waits(m, e.Action) { // the offer has the details
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

// verdict returns a digest of a card's subject. A new card is written if it changes, but not for
// each further alert.
func verdict(m notify.Message) string {
	return state.Hash(string(m.Cause), fmt.Sprint(m.Diagnosed, m.Status == state.StatusResolved), m.MergedInto)
}

// headline returns a digest of the title and severity. A line is written if only it changes.
func headline(m notify.Message) string { return state.Hash(m.Title, string(m.Severity)) }

// offers returns a digest of the actions that wait for a person.
func offers(m notify.Message) string {
	var parts []string
	for _, o := range m.Actions {
		if offered(o) {
			parts = append(parts, string(o.ID), string(o.State), o.PlanHash)
		}
	}
	return state.Hash(parts...)
}

// offered reports whether a person should decide on an action, carry it out, or take care of it.
func offered(o notify.Offer) bool {
	return o.Awaits() || o.State == state.Proposed || o.NeedsPerson
}

// waits reports whether an action waits for a person now.
func waits(m notify.Message, id state.ActionID) bool {
	for _, o := range m.Actions {
		if o.ID == id {
			return offered(o)
		}
	}
	return false
}
