package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/chat"
)

const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"

func slackHeaders(body string, at time.Time) http.Header {
	ts := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(signingSecret))
	fmt.Fprintf(mac, "v0:%s:%s", ts, body)
	return http.Header{
		"X-Slack-Request-Timestamp": {ts}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(mac.Sum(nil))},
		"Content-Type": {"application/x-www-form-urlencoded"},
	}
}

func slackSend(h http.Handler, path, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// slackDoor lets U1 do everything.
func slackDoor(t *testing.T, w *world, change func(*Config)) (*Server, *testClock) {
	return door(t, w, func(c *Config) {
		c.Slack = chat.Config{
			SigningSecret: access.LiteralSecret(signingSecret),
			Authorize: func(by state.Actor, _ state.Verb, _ *state.Action) (string, bool) {
				return "you are not on the list", by.ID == "U1"
			},
			MayRead: func(by chat.Asker) bool { return by.User == "U1" || by.User == "U2" },
		}
		if change != nil {
			change(c)
		}
	})
}

// reply is what Slack shows to the one who asked.
type reply struct {
	ResponseType    string `json:"response_type"`
	ReplaceOriginal bool   `json:"replace_original"`
	Text            string `json:"text"`
}

func slash(user, text, trigger string) string {
	return url.Values{"command": {"/paramedic"}, "user_id": {user}, "user_name": {"ana"}, "text": {text}, "trigger_id": {trigger}}.Encode()
}

func TestForgedOldAndReplayedSlackRequestsAreRefused(t *testing.T) {
	w := newWorld().populate()
	s, clock := slackDoor(t, w, nil)
	body := slash("U1", "ack 42", "t1")
	forged := slackHeaders(body+"x", start)
	expect(t, slackSend(s, "/webhook/slack/command", body, forged), 401, "signature")
	expect(t, slackSend(s, "/webhook/slack/command", body, http.Header{}), 401)
	expect(t, slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start.Add(-6*time.Minute))), 401, "five minutes")
	expect(t, slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start.Add(6*time.Minute))), 401)
	if len(w.inputs) != 0 {
		t.Fatal("something was appended")
	}
	expect(t, slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start)), 200, "Acknowledged")
	expect(t, slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start)), 409, "already handled")
	clock.advance(time.Minute)
	expect(t, slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start.Add(time.Minute))), 409) // the same trigger, signed anew
	if len(w.inputs) != 1 {
		t.Errorf("%d inputs", len(w.inputs))
	}
	closed, _ := door(t, w, nil)
	expect(t, slackSend(closed, "/webhook/slack/command", body, slackHeaders(body, start)), 404, "signing_secret_file")
}

func TestSlashCommands(t *testing.T) {
	w := newWorld().populate()
	in := w.incidents[incident]
	in.Title = "<!channel> *evil* & `x`"
	w.incidents[incident] = in
	s, _ := slackDoor(t, w, nil)
	n := 0
	say := func(user, text string) string {
		t.Helper()
		n++
		body := slash(user, text, fmt.Sprint("t", n))
		got := slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start))
		expect(t, got, 200)
		var m reply
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
		{"U2", "show 42", "/paramedic approve " + string(action) + " plan1"},
		{"U1", "approve ACT-01KA", "say which plan you approve: /paramedic approve " + string(action) + " plan1 (max_num_seqs 256 → 128)"},
		{"U1", "approve ACT-01KA plan0", "has changed"},
		{"U1", "approve ACT-01KA plan1 looks right", "Approved"},
		{"U1", "deny ACT-01KA too late", "decided by ana"},
		{"U1", "halt game day", "halted everywhere"},
		{"U1", "list", "halted in prod"},
		{"U1", "resume", "may go on"},
	} {
		if got := say(c.user, c.text); !strings.Contains(got, c.says) || strings.Contains(got, "<!") {
			t.Errorf("%s: %q does not say %q", c.text, got, c.says)
		}
	}
	refused := 0
	for _, c := range w.commands() {
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
	w.err = state.ErrUnavailable
	if got := say("U1", "halt"); !strings.Contains(got, "durable") {
		t.Errorf("%q", got)
	}
}

func click(user, button, value, trigger, reply string) string {
	payload, _ := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]string{"id": user, "username": "ana"}, "trigger_id": trigger, "response_url": reply,
		"message": map[string]any{"blocks": []any{map[string]any{"type": "a_block_of_the_future", "elements": 7}}},
		"actions": []any{map[string]string{"action_id": button, "value": value}},
	})
	return url.Values{"payload": {string(payload)}}.Encode()
}

func TestButtons(t *testing.T) {
	replies := make(chan string, 8)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		replies <- string(b)
	}))
	defer api.Close()
	defer api.Client().CloseIdleConnections()
	w := newWorld().populate()
	s, _ := slackDoor(t, w, func(c *Config) { c.Slack.APIURL, c.Slack.HTTP = api.URL+"/api/", api.Client() })
	press := func(user, button, value, trigger string) {
		t.Helper()
		body := click(user, button, value, trigger, api.URL+"/reply")
		expect(t, slackSend(s, "/webhook/slack/interaction", body, slackHeaders(body, start)), 200)
	}
	press("U1", "paramedic.open", "", "t0")
	press("U1", "someone.else", "x", "t1")
	if len(w.inputs) != 0 {
		t.Fatal("a link was taken for a command")
	}
	for _, c := range []struct{ user, button, value, says string }{
		{"U2", "paramedic.approve", string(action) + "|plan1", "not on the list"},
		{"U1", "paramedic.approve", string(action) + "|plan0", "has changed"},
		{"U1", "paramedic.approve", string(action), "not remembered"},
		{"U1", "paramedic.ack", "INC-0", "not remembered"},
	} {
		press(c.user, c.button, c.value, c.user+c.value)
		if got := <-replies; !strings.Contains(got, c.says) || !strings.Contains(got, "ephemeral") {
			t.Errorf("%s %s: %s", c.user, c.value, got)
		}
	}
	if got := w.actions[action].State; got != state.AwaitingApproval {
		t.Fatalf("action is %s", got)
	}
	press("U1", "paramedic.ack", string(incident), "t8")
	press("U1", "paramedic.approve", string(action)+"|plan1", "t9")
	if got := w.actions[action]; got.State != state.Approved || got.DecidedBy.ID != "U1" {
		t.Errorf("action is %s by %v", got.State, got.DecidedBy)
	}
	press("U1", "paramedic.deny", string(action)+"|plan1", "t10")
	if got := <-replies; !strings.Contains(got, "does not await") {
		t.Error(got)
	}
}

// Whoever is neither known nor in the incident channel learns nothing of what there is: no list, no
// names, no candidates.
func TestStrangersInSlackLearnNothing(t *testing.T) {
	w := newWorld().populate()
	var asked []chat.Asker
	s, _ := slackDoor(t, w, func(c *Config) {
		c.Slack.MayRead = func(by chat.Asker) bool {
			asked = append(asked, by)
			return by.ChannelName == "llm-oncall"
		}
	})
	say := func(channel, text string) string {
		body := slash("U9GUEST", text, fmt.Sprint("t", len(asked))) + "&channel_id=C1&channel_name=" + channel
		got := slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start))
		expect(t, got, 200)
		return got.Body.String()
	}
	for _, text := range []string{"list", "show 42", "show INC-", "show nothing", "ack INC-", "ack nothing", "approve ACT-9", "diagnose 01K"} {
		if got := say("general", text); !strings.Contains(got, "ask in the channel") || strings.Contains(got, "INC-01") || strings.Contains(got, "ACT-01") {
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
	closed, _ := slackDoor(t, w, func(c *Config) { c.Slack.MayRead = nil })
	body := slash("U1", "list", "t")
	expect(t, slackSend(closed, "/webhook/slack/command", body, slackHeaders(body, start)), 200, "ask in the channel")
}
