package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// said sends a slash command and returns the answer's text.
func said(t *testing.T, s http.Handler, text string) string {
	t.Helper()
	body := hooktest.SlashCommand("U1", text, t.Name()+text)
	got := hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start))
	var m hooktest.SlackReply
	if err := json.Unmarshal(got.Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	return m.Text
}

func TestListWaitsForTheState(t *testing.T) {
	s, _ := hooktest.ServeSlack(t, hooktest.NewWorld(), func(c *webhook.Config) {
		c.Loading = func() error { return errors.New("partition 1 of 4 is not loaded yet") }
	})
	if got := said(t, s, "list"); strings.Contains(got, "No incident is open") || !strings.Contains(got, "not loaded yet") {
		t.Error(got)
	}
}

func TestShowPutsTheWaitingActionFirst(t *testing.T) {
	w := hooktest.NewWorld()
	w.Populate()
	in := w.Incidents[hooktest.Incident]
	in.Actions = nil
	for i := range 7 {
		a := state.Action{ID: state.ActionID(fmt.Sprintf("ACT-01KA%022d", i)), Incident: in.ID, Change: "max_num_seqs 256 → 128",
			State: state.Expired, PlanHash: "aaaaaaaa"}
		if i == 6 {
			a.State = state.AwaitingApproval
		}
		w.Actions[a.ID] = a
		in.Actions = append(in.Actions, a.ID)
	}
	w.Incidents[hooktest.Incident] = in
	s, _ := hooktest.ServeSlack(t, w, func(*webhook.Config) {})
	if got := said(t, s, "show 42"); !strings.Contains(got, "/paramedic approve ACT-01KA") || !strings.Contains(got, "and 2 more") {
		t.Error(got)
	}
}
