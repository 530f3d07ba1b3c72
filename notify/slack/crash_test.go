package slack

import (
	"context"
	"strings"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// board holds a bot's state of one incident, which survives the process.
type board struct {
	state.View
	facts notify.Facts
}

func (b *board) Incident(id state.IncidentID) (state.Incident, bool) {
	return b.facts.Incident, id == b.facts.Incident.ID
}
func (b *board) Evidence(state.IncidentID) (state.Evidence, bool) { return b.facts.Evidence, true }
func (b *board) Action(state.ActionID) (state.Action, bool)       { return b.facts.Actions[0], true }
func (b *board) Timeline(context.Context, state.IncidentID) ([]state.Entry, error) {
	return b.facts.Timeline, nil
}

// The process dies after Slack accepted the message and before the outcome is stored, several
// times. There is one message.
func TestCrashBeforeOutcomeLeavesOneMessage(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	b := &board{facts: fresh(t)}
	wanted := time.Now()
	e := state.Effect{ID: "notify:slack:1", Kind: state.EffectNotify, Channel: state.ChannelSlack, Incident: b.facts.Incident.ID, Want: 3,
		Since: wanted, Turn: 9}
	var out state.Outcome
	for life := range 4 {
		clock := &notifytest.Clock{Time: wanted.Add(time.Duration(life)*time.Minute - time.Second)}
		if life == 1 {
			b.facts.Timeline = append(b.facts.Timeline, state.Entry{N: 9, Text: "acknowledged by Ada"})
		}
		again := New(n.cfg, n.opt) // a new process without the state of the last one
		h := notify.NewHandler(notify.HandlerConfig{View: b, Clock: clock,
			Notifiers: map[state.Channel]notify.Notifier{state.ChannelSlack: again}})
		if out = h.Handle(t.Context(), e); !out.Done || out.Error != "" {
			t.Fatalf("life %d: %+v", life, out)
		}
	}
	thread := s.Thread(out.Ref["ts"])
	if len(s.Messages()) != 1 || len(thread) != 1 || strings.Contains(string(thread[0].Blocks), "opened") {
		t.Errorf("%d messages, replies %v; want one of each, and the reply without what the message tells", len(s.Messages()), thread)
	}
}
