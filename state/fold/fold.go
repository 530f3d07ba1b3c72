package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A Fold applies inputs to a board. It does no I/O and reads no clock: the same inputs on the same
// board give the same board.
type Fold struct {
	Triage   state.Triage
	Routing  state.Routing
	Settings state.Settings
}

// Apply applies one input. What makes no sense (an unknown incident, an outcome of an older turn,
// an approval that came too late) changes nothing but, where a person should know, the timeline.
func (f *Fold) Apply(b *Board, in state.Input) {
	x := &step{Fold: f, Board: b, in: in, now: in.At}
	before := b.touched
	switch {
	case in.Alerts != nil:
		x.alerts(*in.Alerts)
	case in.Evidence != nil:
		x.evidenceCame(*in.Evidence)
	case in.Command != nil:
		x.command(*in.Command)
	case in.Outcome != nil:
		x.outcome(*in.Outcome)
	case in.Action != nil:
		x.actionMoved(*in.Action)
	case in.Foreign != nil:
		x.foreign(*in.Foreign)
	case in.Vanished != nil:
		x.vanished(*in.Vanished)
	default:
		x.tick()
	}
	small := b.touched-before <= mostBeforeSweep // with what a sweep changes a commit takes it
	if b.meta.SweptAt.IsZero() || small && x.now.Sub(b.meta.SweptAt) >= sweepEvery {
		x.sweep()
	}
}

// A step is the application of one input.
type step struct {
	*Fold
	*Board
	in  state.Input
	now time.Time

	gathered int // incidents merged because a rule fires everywhere
}

// changedIncident notes that the incident must be written.
func (x *step) changedIncident(in *state.Incident) { x.touch(kindIncident, string(in.ID)) }

// record adds an entry to the incident's timeline.
func (x *step) record(in *state.Incident, e state.Entry) {
	in.Entries++
	e.Incident, e.N, e.At, e.Seq = in.ID, in.Entries, x.now, x.in.Seq
	e.Text = oneLine(e.Text)
	x.entries = append(x.entries, e)
	x.changedIncident(in)
}

// oneLine keeps text that came from outside on one line and of a length that a timeline can show.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 500 {
		s = string(r[:499]) + "…"
	}
	return s
}

// show makes the incident's newest form visible to people, on every channel that has heard of it or
// should hear of it now.
func (x *step) show(in *state.Incident) {
	in.Rev++
	x.changedIncident(in)
	x.tell(in)
}

// tell puts a notify effect for every channel of the incident that does not show its newest
// revision. Nobody is told of an incident before its first verdict or NotifyBy, whichever is first.
func (x *step) tell(in *state.Incident) {
	spoken := len(in.Channels) > 0
	if !spoken && in.DiagnosedAt.IsZero() && in.Open() && x.now.Before(in.NotifyBy) {
		return
	}
	if x.now.Before(in.SilencedUntil) || (!spoken && in.MergedInto != "") {
		return
	}
	for _, ch := range x.Routing.Channels(in) {
		external := ch == state.ChannelPagerDuty && len(in.External) > 0 && in.HandedAt.IsZero() && !slices.Contains(in.Channels, ch)
		if !slices.Contains(in.Channels, ch) && !external {
			in.Channels = append(in.Channels, ch)
		}
	}
	in.NotifyBy = time.Time{}
	x.changedIncident(in)
	for _, ch := range in.Channels {
		if in.Told[ch].Rev < in.Rev {
			x.notify(in, ch)
		}
	}
}

// notify wants the incident's newest revision shown on the channel. One such effect is pending at
// most: a storm of changes costs the channel as many calls as it can deliver, and the last one
// shows the newest state.
func (x *step) notify(in *state.Incident, ch state.Channel) {
	id := state.EffectID(fmt.Sprintf("notify:%s:%s", ch, in.ID))
	if e := x.effects[id]; e != nil {
		if e.Want != in.Rev {
			e.Want = in.Rev
			x.touch(kindEffect, string(id))
		}
		return
	}
	x.put(state.Effect{ID: id, Kind: state.EffectNotify, Cluster: in.Cluster, Incident: in.ID, Channel: ch, Want: in.Rev, Due: x.now})
}

// put wants an effect; one that is wanted already is only made due sooner.
func (x *step) put(e state.Effect) {
	if old := x.effects[e.ID]; old != nil {
		if e.Due.Before(old.Due) && old.Attempts == 0 {
			old.Due = e.Due
			x.touch(kindEffect, string(e.ID))
		}
		return
	}
	e.Since, e.Turn = x.now, x.in.Seq
	x.want(&e)
	x.touch(kindEffect, string(e.ID))
}

func (x *step) drop(id state.EffectID) {
	if e := x.effects[id]; e != nil {
		x.unwant(e)
		x.touch(kindEffect, string(id))
	}
}
