package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// call answers one call, with its result or with Slack's error code. A code other than ratelimited
// is recorded as a failure.
func (s *Server) call(method string, r *http.Request) (map[string]any, string) {
	r.Body = http.MaxBytesReader(nil, r.Body, 4<<20)
	if err := r.ParseForm(); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "invalid_form_data" // the client went away
	} else if err != nil {
		s.Fail("%s: the body is not a form: %v", method, err)
		return nil, "invalid_form_data"
	}
	token := r.Form.Get("token")
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = t
	}
	if s.opt.Token != "" && token != s.opt.Token || !strings.HasPrefix(token, "xoxb-") {
		s.Fail("%s: the token is not the bot's", method)
		return nil, "invalid_auth"
	}
	if s.overTier(method) {
		return nil, "ratelimited"
	}
	var answer map[string]any
	var code, why string
	if !s.may(method) {
		s.Fail("%s: missing_scope", method)
		return nil, "missing_scope"
	}
	switch method {
	case "chat.postMessage":
		answer, code, why = s.post(r.Form)
	case "chat.update":
		answer, code, why = s.update(r.Form)
	case "conversations.history":
		answer, code, why = s.history(r.Form)
	case "conversations.replies":
		answer, code, why = s.replies(r.Form)
	case "conversations.list":
		answer, code, why = s.channels(r.Form)
	case "conversations.info":
		answer, code, why = s.info(r.Form)
	case "auth.test":
		answer = map[string]any{"url": s.http.URL, "team": "Lab", "user": "paramedic", "team_id": "T0000LAB", "user_id": "U0000BOT",
			"bot_id": "B0000BOT"}
	default:
		code, why = "unknown_method", "the fake does not know it"
	}
	if code != "" && code != "ratelimited" {
		s.Fail("%s: %s: %s", method, code, why)
	}
	return answer, code
}

// channel returns the ID of a channel, given its ID or, if names is true, its name.
func (s *Server) channel(given string, names bool) string {
	for name, id := range s.opt.Channels {
		if given == id || names && strings.TrimPrefix(given, "#") == name {
			return id
		}
	}
	return ""
}

// tiers holds the calls of a method that a workspace may make in a minute
// (https://docs.slack.dev/apis/web-api/rate-limits).
var tiers = map[string]int{"chat.update": 50, "conversations.history": 50, "conversations.replies": 50, "conversations.list": 20}

// overTier reports whether the call exceeds its method's limit in the last minute.
func (s *Server) overTier(method string) bool {
	most := tiers[method]
	if most == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	made := slices.DeleteFunc(s.made[method], func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(made) >= most {
		s.made[method] = made
		s.limited++
		return true
	}
	s.made[method] = append(made, now)
	return false
}

func (s *Server) tooFast(channel string) bool {
	if s.opt.Burst == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[channel]
	if l == nil {
		l = rate.NewLimiter(1, s.opt.Burst)
		s.limits[channel] = l
	}
	if l.AllowN(s.opt.Now(), 1) {
		return false
	}
	s.limited++
	return true
}

// content checks a message's text, blocks and metadata.
func content(form url.Values) (code, why string) {
	text, blocks, meta := form.Get("text"), form.Get("blocks"), form.Get("metadata")
	if text == "" && blocks == "" {
		return "no_text", "neither text nor blocks"
	}
	if length(text) > 40000 {
		return "msg_too_long", fmt.Sprintf("text of %d characters", length(text))
	}
	if blocks != "" {
		if code, why := checkBlocks([]byte(blocks)); code != "" {
			return code, why
		}
	}
	if meta != "" {
		var m struct {
			EventType string         `json:"event_type"`
			Payload   map[string]any `json:"event_payload"`
		}
		if err := json.Unmarshal([]byte(meta), &m); err != nil || m.EventType == "" || m.Payload == nil {
			return "invalid_metadata_format", "metadata needs event_type and event_payload"
		}
		if len(meta) > 8000 {
			return "metadata_too_large", fmt.Sprintf("metadata of %d bytes", len(meta))
		}
	}
	return "", ""
}

func (s *Server) post(form url.Values) (map[string]any, string, string) {
	channel := s.channel(form.Get("channel"), true)
	if channel == "" {
		return nil, "channel_not_found", form.Get("channel")
	}
	if code := s.closed(channel); code != "" {
		return nil, code, form.Get("channel")
	}
	if s.tooFast(channel) {
		return nil, "ratelimited", ""
	}
	if code, why := content(form); code != "" {
		return nil, code, why
	}
	thread := form.Get("thread_ts")
	s.mu.Lock()
	defer s.mu.Unlock()
	if thread != "" && s.at(channel, thread) == nil {
		return nil, "thread_not_found", thread
	}
	now := max(s.opt.Now().UnixMicro(), s.lastTS+1)
	s.lastTS = now
	m := &Message{Channel: channel, TS: fmt.Sprintf("%d.%06d", now/1e6, now%1e6), ThreadTS: thread}
	m.set(form)
	s.messages = append(s.messages, m)
	return map[string]any{"channel": channel, "ts": m.TS, "message": m.json(true)}, "", ""
}

func (s *Server) update(form url.Values) (map[string]any, string, string) {
	channel := s.channel(form.Get("channel"), false)
	if channel == "" {
		return nil, "channel_not_found", "chat.update takes the channel's ID, not " + form.Get("channel")
	}
	if code, why := content(form); code != "" {
		return nil, code, why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.at(channel, form.Get("ts"))
	if m == nil {
		return nil, "message_not_found", form.Get("ts")
	}
	m.set(form)
	m.Edits++
	return map[string]any{"channel": channel, "ts": m.TS, "text": m.Text}, "", ""
}

func (m *Message) set(form url.Values) {
	m.Text, m.Blocks, m.Metadata = form.Get("text"), nil, nil
	if b := form.Get("blocks"); b != "" {
		m.Blocks = json.RawMessage(b)
	}
	if b := form.Get("metadata"); b != "" {
		m.Metadata = json.RawMessage(b)
	}
}

func (m *Message) json(metadata bool) map[string]any {
	out := map[string]any{"type": "message", "ts": m.TS, "text": m.Text, "bot_id": "B0000BOT"}
	if m.Blocks != nil {
		out["blocks"] = m.Blocks
	}
	if m.ThreadTS != "" {
		out["thread_ts"] = m.ThreadTS
	}
	if metadata && m.Metadata != nil {
		out["metadata"] = m.Metadata
	}
	return out
}

func (s *Server) at(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return m
		}
	}
	return nil
}

func (s *Server) history(form url.Values) (map[string]any, string, string) {
	channel := s.channel(form.Get("channel"), false)
	if channel == "" {
		return nil, "channel_not_found", "conversations.history takes the channel's ID, not " + form.Get("channel")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Message
	for _, m := range slices.Backward(s.messages) {
		if m.Channel == channel && m.ThreadTS == "" && m.TS > form.Get("oldest") {
			found = append(found, m)
		}
	}
	return paged(found, form), "", ""
}

func (s *Server) replies(form url.Values) (map[string]any, string, string) {
	channel, ts := s.channel(form.Get("channel"), false), form.Get("ts")
	s.mu.Lock()
	defer s.mu.Unlock()
	if channel == "" || s.at(channel, ts) == nil {
		return nil, "thread_not_found", ts
	}
	var found []*Message
	for _, m := range s.messages {
		if m.Channel == channel && (m.TS == ts || m.ThreadTS == ts) {
			found = append(found, m)
		}
	}
	return paged(found, form), "", ""
}

// paged returns one page of messages. The cursor is an offset.
func paged(found []*Message, form url.Values) map[string]any {
	limit, _ := strconv.Atoi(form.Get("limit"))
	if limit <= 0 || limit > 999 {
		limit = 100
	}
	offset, _ := strconv.Atoi(form.Get("cursor"))
	offset = min(max(offset, 0), len(found))
	end := min(offset+limit, len(found))
	list := []map[string]any{}
	for _, m := range found[offset:end] {
		list = append(list, m.json(form.Get("include_all_metadata") == "1" || form.Get("include_all_metadata") == "true"))
	}
	next := ""
	if end < len(found) {
		next = strconv.Itoa(end)
	}
	return map[string]any{"messages": list, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}}
}
