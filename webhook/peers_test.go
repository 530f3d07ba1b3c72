package webhook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// These tests are named after failures that users of other tools reported. Each comment describes
// the failure, and how this bot avoids it.

// NVSentinel, issue 121: a drain could not be called off. Here a run that has recorded its intent
// accepts a cancellation, once. A run that is applied refuses it, and reports its state.
func TestNVSentinel121DrainCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := hooktest.NewWorld().Populate()
		s, _ := hooktest.Serve(t, w, nil)
		path := "/api/v1/actions/" + string(hooktest.Action) + "/cancel"
		a := w.Actions[hooktest.Action]
		a.State = state.Intent
		w.Actions[hooktest.Action] = a
		hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"ana"}`), 202, "called off by ana")
		if got := w.Actions[hooktest.Action].Journal[state.CalledOff]; !strings.HasPrefix(got, "ana") {
			t.Errorf("called off by %q", got)
		}
		hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"ana"}`), 409, "can no longer be cancelled")
		a.State = state.Applied
		w.Actions[hooktest.Action] = a
		hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"ana"}`), 409, "it is applied")
	})
}

// Robusta, issue 1752: the answer to a button went to another channel than the button's. Here it
// goes to the address that came with the click. Only the person who clicked sees it, also if others
// click at the same time.
func TestRobusta1752ReplyGoesToTheClickedMessage(t *testing.T) {
	type answer struct{ path, text string }
	answers := make(chan answer, 8)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var m hooktest.SlackReply
		if json.Unmarshal(b, &m) != nil || m.ResponseType != "ephemeral" || m.ReplaceOriginal {
			m.Text = "not for one person: " + string(b)
		}
		answers <- answer{r.URL.Path, m.Text}
	}))
	defer api.Close()
	defer api.Client().CloseIdleConnections()
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.ServeSlack(t, w, func(c *webhook.Config) { c.Slack.APIURL, c.Slack.HTTP = api.URL+"/api/", api.Client() })
	says := map[string]string{"/C-oncall/ben": "not on the list", "/C-gpu-team/cleo": "not on the list", "/C-oncall/ana": "has changed"}
	for i, c := range []struct{ user, value, reply string }{
		{"U2", string(hooktest.Action) + "|plan1", "/C-oncall/ben"}, {"U3", string(hooktest.Action) + "|plan1", "/C-gpu-team/cleo"},
		{"U1", string(hooktest.Action) + "|plan0", "/C-oncall/ana"},
	} {
		body := hooktest.Click(c.user, "paramedic.approve", c.value, fmt.Sprint("t", i), api.URL+c.reply)
		hooktest.Expect(t, hooktest.SendSlack(s, "/webhook/slack/interaction", body, hooktest.SlackHeaders(body, hooktest.Start)), 200)
	}
	for range says {
		got := <-answers
		if want, ok := says[got.path]; !ok || !strings.Contains(got.text, want) {
			t.Errorf("%s was answered %q", got.path, got.text)
		}
	}
	if len(answers) != 0 {
		t.Error("a person was answered twice")
	}
}
