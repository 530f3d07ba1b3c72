package hooktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/chat"
)

// SlackSecret is the signing secret of ServeSlack's server.
const SlackSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// SlackHeaders returns the headers with which Slack signs a body.
func SlackHeaders(body string, at time.Time) http.Header {
	ts := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(SlackSecret))
	fmt.Fprintf(mac, "v0:%s:%s", ts, body)
	return http.Header{
		"X-Slack-Request-Timestamp": {ts}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(mac.Sum(nil))},
		"Content-Type": {"application/x-www-form-urlencoded"},
	}
}

// SendSlack sends a form as Slack does.
func SendSlack(h http.Handler, path, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ServeSlack returns a server that lets U1 do everything in Slack, and U2 read.
func ServeSlack(t *testing.T, w *World, change func(*webhook.Config)) (*webhook.Server, *Clock) {
	return Serve(t, w, func(c *webhook.Config) {
		c.Slack = chat.Config{
			SigningSecret: access.LiteralSecret(SlackSecret),
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

// A SlackReply is an answer that Slack shows to the person who asked.
type SlackReply struct {
	ResponseType    string `json:"response_type"`
	ReplaceOriginal bool   `json:"replace_original"`
	Text            string `json:"text"`
}

// SlashCommand returns the form of a slash command.
func SlashCommand(user, text, trigger string) string {
	return url.Values{"command": {"/paramedic"}, "user_id": {user}, "user_name": {"ana"}, "text": {text}, "trigger_id": {trigger}}.Encode()
}

// Click returns the form of a click on a button.
func Click(user, button, value, trigger, reply string) string {
	payload, _ := json.Marshal(map[string]any{
		"type": "block_actions", "user": map[string]string{"id": user, "username": "ana"}, "trigger_id": trigger, "response_url": reply,
		"message": map[string]any{"blocks": []any{map[string]any{"type": "a_block_of_the_future", "elements": 7}}},
		"actions": []any{map[string]string{"action_id": button, "value": value}},
	})
	return url.Values{"payload": {string(payload)}}.Encode()
}
