package slacktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Sign returns the header of a request that Slack signed with the app's signing secret
// (https://docs.slack.dev/authentication/verifying-requests-from-slack).
func Sign(secret string, body []byte, now time.Time) http.Header {
	ts := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%s:%s", ts, body)
	h := http.Header{}
	h.Set("X-Slack-Request-Timestamp", ts)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	return h
}

// A Person clicks or types.
type Person struct {
	ID   string
	Name string
	Team string // default: T0000LAB
}

func (p Person) team() string {
	if p.Team == "" {
		return "T0000LAB"
	}
	return p.Team
}

// Buttons returns the values of a message's buttons with the action ID, in their order.
func (m Message) Buttons(actionID string) []string {
	var blocks []struct {
		ID       string `json:"block_id"`
		Elements []struct {
			Type, Value string
			ActionID    string `json:"action_id"`
		}
	}
	if json.Unmarshal(m.Blocks, &blocks) != nil {
		return nil
	}
	var out []string
	for _, b := range blocks {
		for _, e := range b.Elements {
			if e.Type == "button" && e.ActionID == actionID {
				out = append(out, e.Value)
			}
		}
	}
	return out
}

// Click returns the body that Slack sends when a person clicks the n-th button with the action ID
// in a message. It fails if the message has no such button now.
func (s *Server) Click(who Person, ts, actionID string, n int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if m.TS != ts {
			continue
		}
		values := m.Buttons(actionID)
		if n >= len(values) {
			return nil, fmt.Errorf("message %s has %d buttons %s", ts, len(values), actionID)
		}
		now := s.opt.Now()
		at := fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000)
		payload, err := json.Marshal(object{
			"type": "block_actions", "user": object{"id": who.ID, "username": who.Name, "name": who.Name, "team_id": who.team()},
			"api_app_id": "A0000LAB", "team": object{"id": who.team(), "domain": "lab"},
			"container":  object{"type": "message", "message_ts": ts, "channel_id": m.Channel, "is_ephemeral": false},
			"channel":    object{"id": m.Channel, "name": "llm-oncall"},
			"message":    m.json(true),
			"trigger_id": "13345224609.738474920." + at, "response_url": s.http.URL + "/api/" + responseURL,
			"actions": []object{{"type": "button", "action_id": actionID, "value": values[n], "action_ts": at,
				"block_id": "b", "text": object{"type": "plain_text", "text": "button"}}},
		})
		if err != nil {
			return nil, err
		}
		return []byte(url.Values{"payload": {string(payload)}}.Encode()), nil
	}
	return nil, fmt.Errorf("there is no message %s", ts)
}

// Command returns the body that Slack sends when a person types /paramedic and the text.
func Command(who Person, text string) []byte {
	return []byte(url.Values{
		"team_id": {who.team()}, "team_domain": {"lab"}, "channel_id": {"C0000ONCALL"}, "channel_name": {"llm-oncall"},
		"user_id": {who.ID}, "user_name": {who.Name}, "command": {"/paramedic"}, "text": {text}, "api_app_id": {"A0000LAB"},
		"trigger_id": {"13345224609.738474920.1"}, "response_url": {"https://hooks.slack.com/commands/T0000LAB/1/x"},
	}.Encode())
}

// responseURL is the path of a click's response URL. The URL is a secret: Slack asks for no token
// there.
const responseURL = "response_url"

// whisper accepts a reply to a click, which only the person who clicked would see.
func (s *Server) whisper(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ResponseType string `json:"response_type"`
		Text         string `json:"text"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&m)
	if r.Method != http.MethodPost || err != nil || m.Text == "" || m.ResponseType != "ephemeral" {
		s.Fail("response_url: a reply is posted as JSON with an ephemeral response_type and a text (%v)", err)
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.whispers = append(s.whispers, m.Text)
	s.mu.Unlock()
	reply(w, map[string]any{"ok": true})
}

// Whispers returns the replies to clicks, oldest first.
func (s *Server) Whispers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.whispers)
}
