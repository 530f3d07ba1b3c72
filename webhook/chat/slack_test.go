package chat_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/chat"
	"paramedic/webhook/hooktest"
)

func TestInvalidSlackRequestsAreRefused(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, clock := hooktest.ServeSlack(t, w, nil)
	body := hooktest.SlashCommand("U1", "ack 42", "t1")
	forged := hooktest.SlackHeaders(body+"x", hooktest.Start)
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body, forged), 401, "signature")
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body, http.Header{}), 401)
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body,
		hooktest.SlackHeaders(body, hooktest.Start.Add(-6*time.Minute))), 401, "five minutes")
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body,
		hooktest.SlackHeaders(body, hooktest.Start.Add(6*time.Minute))), 401)
	if len(w.Inputs) != 0 {
		t.Fatal("something was appended")
	}
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)), 200,
		"Acknowledged")
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)), 409,
		"already handled")
	clock.Advance(time.Minute)
	// the same trigger with a new signature
	hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/command", body,
		hooktest.SlackHeaders(body, hooktest.Start.Add(time.Minute))), 409)
	if len(w.Inputs) != 1 {
		t.Errorf("%d inputs", len(w.Inputs))
	}
	closed, _ := hooktest.Serve(t, w, nil)
	hooktest.Expect(t, hooktest.SendSlack(closed, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)), 404,
		"signing_secret_file")
}

func TestSlashCommands(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	in := w.Incidents[hooktest.Incident]
	in.Title = "<!channel> *evil* & `x`"
	w.Incidents[hooktest.Incident] = in
	s, _ := hooktest.ServeSlack(t, w, nil)
	n := 0
	say := func(user, text string) string {
		t.Helper()
		n++
		body := hooktest.SlashCommand(user, text, fmt.Sprint("t", n))
		got := hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start))
		hooktest.Expect(t, got, 200)
		var m hooktest.SlackReply
		if err := json.Unmarshal(got.Body.Bytes(), &m); err != nil || m.ResponseType != "ephemeral" || len(m.Text) > 3000 {
			t.Fatalf("%v: %s", err, got.Body)
		}
		return m.Text
	}
	for _, c := range []struct{ user, text, says string }{
		{"U2", "", "diagnose"},
		{"U2", "help", "halt"},
		{"U2", "list", "&lt;!channel&gt; 'evil' &amp; 'x'"},
		{"U2", "show 42", "kv_exhaustion"},
		{"U2", "show nothing", "no incident"},
		{"U2", "ack 01K", "means several"},
		{"U2", "ack INC", "means several"},
		{"U2", "show inc-", "means several"},
		{"U2", "dance", "no command"},
		{"U2", "approve ACT-01KA plan1", "not on the list"},
		{"U2", "halt", "not on the list"},
		{"U1", "diagnose INC-01KA", "again"},
		{"U1", "ack #42", "Acknowledged"},
		{"U2", "show 42", "/paramedic approve " + string(hooktest.Action) + " plan1"},
		{"U1", "approve ACT-01KA", "say which plan you approve: /paramedic approve " + string(hooktest.Action) +
			" plan1 (max_num_seqs 256 → 128)"},
		{"U1", "approve ACT-01KA plan0", "has changed"},
		{"U1", "approve ACT-01KA plan1 looks right", "Approved"},
		{"U1", "deny ACT-01KA too late", "decided by ana"},
		{"U1", "halt game day", "halted everywhere"},
		{"U1", "list", "halted in prod"},
		{"U1", "resume", "allowed again"},
	} {
		if got := say(c.user, c.text); !strings.Contains(got, c.says) || strings.Contains(got, "<!") {
			t.Errorf("%s: %q does not say %q", c.text, got, c.says)
		}
	}
	refused := 0
	for _, c := range w.Commands() {
		if c.Refused != "" {
			refused++
		}
		if c.Verb == state.VerbHalt && c.Refused == "" && c.Reason != "game day" {
			t.Errorf("%+v", c)
		}
	}
	if refused != 3 { // approve, and halt in two clusters
		t.Errorf("%d refusals recorded", refused)
	}
	w.Err = state.ErrUnavailable
	if got := say("U1", "halt"); !strings.Contains(got, "cannot store this now") {
		t.Errorf("%q", got)
	}
}

func TestSlackButtons(t *testing.T) {
	replies := make(chan string, 8)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		replies <- string(b)
	}))
	defer api.Close()
	defer api.Client().CloseIdleConnections()
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.ServeSlack(t, w, func(c *webhook.Config) { c.Slack.APIURL, c.Slack.HTTP = api.URL+"/api/", api.Client() })
	press := func(user, button, value, trigger string) {
		t.Helper()
		body := hooktest.Click(user, button, value, trigger, api.URL+"/reply")
		hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/interaction", body, hooktest.SlackHeaders(body, hooktest.Start)), 200)
	}
	press("U1", "paramedic.open", "", "t0")
	press("U1", "someone.else", "x", "t1")
	if len(w.Inputs) != 0 {
		t.Fatal("a link was taken for a command")
	}
	for _, c := range []struct{ user, button, value, says string }{
		{"U2", "paramedic.approve", string(hooktest.Action) + "|plan1", "not on the list"},
		{"U1", "paramedic.approve", string(hooktest.Action) + "|plan0", "has changed"},
		{"U1", "paramedic.approve", string(hooktest.Action), "no longer stored"},
		{"U1", "paramedic.ack", "INC-0", "no longer stored"},
	} {
		press(c.user, c.button, c.value, c.user+c.value)
		if got := <-replies; !strings.Contains(got, c.says) || !strings.Contains(got, "ephemeral") {
			t.Errorf("%s %s: %s", c.user, c.value, got)
		}
	}
	if got := w.Actions[hooktest.Action].State; got != state.AwaitingApproval {
		t.Fatalf("action is %s", got)
	}
	press("U1", "paramedic.ack", string(hooktest.Incident), "t8")
	press("U1", "paramedic.approve", string(hooktest.Action)+"|plan1", "t9")
	if got := w.Actions[hooktest.Action]; got.State != state.Approved || got.DecidedBy.ID != "U1" {
		t.Errorf("action is %s by %v", got.State, got.DecidedBy)
	}
	press("U1", "paramedic.deny", string(hooktest.Action)+"|plan1", "t10")
	if got := <-replies; !strings.Contains(got, "does not wait for a decision") {
		t.Error(got)
	}
}

// A user who is neither known nor in the incident channel gets no list, no names and no candidates.
func TestUnknownSlackUsersSeeNoIncidents(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	var asked []chat.Asker
	s, _ := hooktest.ServeSlack(t, w, func(c *webhook.Config) {
		c.Slack.MayRead = func(by chat.Asker) bool {
			asked = append(asked, by)
			return by.ChannelName == "llm-oncall"
		}
	})
	say := func(channel, text string) string {
		body := hooktest.SlashCommand("U9GUEST", text, fmt.Sprint("t", len(asked))) + "&channel_id=C1&channel_name=" + channel
		got := hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start))
		hooktest.Expect(t, got, 200)
		return got.Body.String()
	}
	for _, text := range []string{"list", "show 42", "show INC-", "show nothing", "ack INC-", "ack nothing", "approve ACT-9",
		"diagnose 01K"} {
		if got := say("general", text); !strings.Contains(got, "ask in the channel") || strings.Contains(got, "INC-01") ||
			strings.Contains(got, "ACT-01") {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := say("general", "help"); !strings.Contains(got, "halt") {
		t.Error(got)
	}
	if got := say("llm-oncall", "show 42"); !strings.Contains(got, "kv_exhaustion") {
		t.Error(got)
	}
	if by := asked[0]; by != (chat.Asker{User: "U9GUEST", Channel: "C1", ChannelName: "general"}) {
		t.Errorf("asked for %+v", by)
	}
	closed, _ := hooktest.ServeSlack(t, w, func(c *webhook.Config) { c.Slack.MayRead = nil })
	body := hooktest.SlashCommand("U1", "list", "t")
	hooktest.Expect(t, hooktest.SendSlack(closed, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)), 200,
		"ask in the channel")
}
