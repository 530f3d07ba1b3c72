package slack

import (
	"strings"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// These tests are named after failures that users of other tools reported. Each comment describes
// the failure, and how this bot avoids it.

// Robusta, issue 1350: the end of an alert left its first message unchanged, and people read of a
// fault that was over. Here the end is an edit of that message. Its headline, its status and the
// notification's text show the end, it asks for nothing, and nothing else is posted to the channel.
func TestRobusta1350EndEditsTheFirstMessage(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Incident.Status, f.Incident.ResolvedAt, f.Incident.ResolvedBy = state.StatusResolved, f.Incident.StartedAt.Add(25*time.Minute),
		"alerts"
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
		t.Fatal(err)
	}
	got := s.Messages()
	if len(got) != 1 || got[0].TS != ref["ts"] || got[0].Edits != 1 {
		t.Fatalf("%d messages, the first edited %d times", len(got), got[0].Edits)
	}
	if blocks := string(got[0].Blocks); !strings.Contains(got[0].Text, "resolved") || !strings.Contains(blocks, "✅") ||
		!strings.Contains(blocks, "Resolved after 25 min.") {
		t.Errorf("it still reads %q: %s", got[0].Text, blocks)
	}
	for _, button := range []string{ActionAck, ActionApprove, ActionDeny} {
		if len(got[0].Buttons(button)) != 0 {
			t.Errorf("it still has the button %s", button)
		}
	}
}

// Robusta, issue 1752: a message's update went to another channel. Here an incident stays in its
// channel, even if the configuration names another one later: edits and the thread go there.
func TestRobusta1752IncidentStaysInItsChannel(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{Channels: map[string]string{"llm-oncall": "C0000ONCALL", "gpu-team": "C0000GPU"}})
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	moved := n.cfg
	moved.Channel = "#gpu-team"
	n = New(moved, n.opt)
	f.Incident.AckedAt, f.Incident.AckedBy = time.Now(), &state.Actor{ID: "U1", Name: "Ada"}
	f.Timeline = append(f.Timeline, state.Entry{N: 9, Text: "acknowledged by Ada"})
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
		t.Fatal(err)
	}
	for _, m := range append(s.Messages(), s.Thread(ref["ts"])...) {
		if m.Channel != "C0000ONCALL" {
			t.Errorf("%q went to %s", m.Text, m.Channel)
		}
	}
	if got := s.Messages(); len(got) != 1 || got[0].Edits != 1 || len(s.Thread(ref["ts"])) != 1 {
		t.Errorf("%d messages and %d replies", len(got), len(s.Thread(ref["ts"])))
	}
}

// HolmesGPT, issue 431: buttons were missing, or shown without effect. Here a message has buttons
// if a click's signature can be verified. Otherwise it names another way to decide.
func TestHolmes431ButtonsNeedASigningSecret(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	n.cfg.SigningSecretFile = ""
	f := fresh(t)
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
		t.Fatal(err)
	}
	m := s.Messages()[0]
	for _, button := range []string{ActionAck, ActionApprove, ActionDeny} {
		if len(m.Buttons(button)) != 0 {
			t.Errorf("the button %s can only be refused", button)
		}
	}
	if !strings.Contains(string(m.Blocks), "paramedic approve ACT-01") || len(m.Buttons(ActionOpen)) != 1 {
		t.Errorf("how else to approve it is not said: %s", m.Blocks)
	}
}
