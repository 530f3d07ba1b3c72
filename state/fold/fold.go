package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A Fold applies inputs to a board. It does no I/O and reads no clock. The same inputs on the same
// board give the same board.
type Fold struct {
	Triage   state.Triage
	Routing  state.Routing
	Settings state.Settings
	// Titles holds the titles of symptoms, for texts. A symptom without one is shown by its ID.
	Titles map[state.Symptom]string
}

// Apply applies one input. An input that does not fit (an unknown incident, an outcome of an older
// turn, a late approval) changes nothing but the timeline, if a person should know.
func (f *Fold) Apply(b *Board, in state.Input) {
	x := &step{Fold: f, Board: b, in: in, now: in.At}
	before := b.touched
	switch {
	case in.Alerts != nil:
		x.applyAlerts(*in.Alerts)
	case in.Evidence != nil:
		x.applyEvidence(*in.Evidence)
	case in.Command != nil:
		x.applyCommand(*in.Command)
	case in.Outcome != nil:
		x.applyOutcome(*in.Outcome)
	case in.Action != nil:
		x.applyActionEvent(*in.Action)
	case in.Foreign != nil:
		x.applyForeign(*in.Foreign)
	case in.Vanished != nil:
		x.applyVanished(*in.Vanished)
	case in.Clock != nil:
		x.applyClock(*in.Clock)
	case in.Flood != nil:
		x.applyFlood(*in.Flood)
	default:
		x.tick()
	}
	small := b.touched-before <= maxBeforeSweep // one commit takes the input's changes and those of a sweep
	if !in.More && (b.meta.SweptAt.IsZero() || small && x.now.Sub(b.meta.SweptAt) >= sweepEvery) {
		x.sweep()
	}
	x.dropIdleTimers()
}

// A step is the application of one input.
type step struct {
	*Fold
	*Board
	in  state.Input
	now time.Time

	ruleMerges int // incidents merged because their rule fires everywhere
}

// title returns a symptom's title.
func (f *Fold) title(s state.Symptom) string { return cmp.Or(f.Titles[s], string(s)) }

// changedIncident marks the incident for the next commit.
func (x *step) changedIncident(in *state.Incident) { x.touch(kindIncident, string(in.ID)) }

// record adds an entry to the incident's timeline.
func (x *step) record(in *state.Incident, e state.Entry) {
	in.Entries++
	e.Incident, e.N, e.At, e.Seq = in.ID, in.Entries, x.now, x.in.Seq
	e.Text = oneLine(e.Text)
	x.entries = append(x.entries, e)
	x.changedIncident(in)
}

// oneLine shortens text from outside to one line of at most 500 characters.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 500 {
		s = string(r[:499]) + "…"
	}
	return s
}

// publish makes a new revision of the incident and sends it to its channels.
func (x *step) publish(in *state.Incident) {
	in.Rev++
	x.changedIncident(in)
	x.notifyChannels(in)
}

// notifyChannels wants a notification on every channel of the incident that has not shown its
// newest revision. There is none before the first verdict or NotifyBy, whichever is first.
func (x *step) notifyChannels(in *state.Incident) {
	spoken := len(in.Channels) > 0
	if !spoken && in.DiagnosedAt.IsZero() && in.Open() && x.now.Before(in.NotifyBy) {
		return
	}
	if x.now.Before(in.SilencedUntil) {
		if slices.Contains(in.Channels, state.ChannelPagerDuty) && !in.Silenced(state.ChannelPagerDuty, x.now) {
			x.wantNotify(in, state.ChannelPagerDuty)
		}
		return
	}
	if !spoken && in.MergedInto != "" {
		return
	}
	for _, ch := range x.Routing.Channels(in) {
		external := ch == state.ChannelPagerDuty && in.HandedAt.IsZero() && !slices.Contains(in.Channels, ch) &&
			slices.ContainsFunc(in.External, func(e state.External) bool { return !e.Ended && !e.Low })
		if !slices.Contains(in.Channels, ch) && !external {
			in.Channels = append(in.Channels, ch)
		}
	}
	in.NotifyBy = time.Time{}
	x.changedIncident(in)
	for _, ch := range in.Channels {
		if in.Told.Rev(ch) < in.Rev {
			x.wantNotify(in, ch)
		}
	}
}

// wantNotify wants the incident's newest revision shown on the channel. At most one such effect is
// pending. In a storm of changes a channel thus gets as many calls as it can deliver, and the last
// one shows the newest state.
func (x *step) wantNotify(in *state.Incident, ch state.Channel) {
	id := state.EffectID(fmt.Sprintf("notify:%s:%s", ch, in.ID))
	if e := x.effects[id]; e != nil {
		if e.Want != in.Rev {
			x.changeEffect(e, func(e *state.Effect) { e.Want = in.Rev })
		}
		return
	}
	x.wantEffect(state.Effect{ID: id, Kind: state.EffectNotify, Cluster: in.Cluster, Incident: in.ID, Channel: ch,
		Want: in.Rev, Due: x.now})
}

// wantEffect wants an effect. If it is wanted already, only its due time may move forward.
func (x *step) wantEffect(e state.Effect) {
	if old := x.effects[e.ID]; old != nil {
		if e.Due.Before(old.Due) && old.Attempts == 0 {
			x.changeEffect(old, func(old *state.Effect) { old.Due = e.Due })
		}
		return
	}
	e.Since, e.Turn = x.now, x.in.Turn()
	x.addEffect(&e)
	x.touch(kindEffect, string(e.ID))
}

func (x *step) dropEffect(id state.EffectID) {
	if e := x.effects[id]; e != nil {
		x.removeEffect(e)
		x.touch(kindEffect, string(id))
	}
}
