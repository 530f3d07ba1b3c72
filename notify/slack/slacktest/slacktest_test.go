package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

type block = map[string]any

func TestFakeRefusesInvalidCalls(t *testing.T) {
	button := func(more block) block {
		b := block{"type": "button", "action_id": "a", "text": block{"type": "plain_text", "text": "ok"}}
		for k, v := range more {
			b[k] = v
		}
		return block{"type": "actions", "elements": []block{b}}
	}
	var many, sections []block
	for i := range 51 {
		many = append(many, block{"type": "divider", "block_id": fmt.Sprint(i)})
	}
	for range 4 {
		sections = append(sections, block{"type": "section", "text": plain(2900)})
	}
	for _, c := range []struct {
		name   string
		blocks []block
		code   string
	}{
		{"a valid message", []block{{"type": "header", "text": plain(150)}, {"type": "section", "text": plain(3000)}, button(nil)}, ""},
		{"51 blocks", many, "invalid_blocks"},
		{"a long header", []block{{"type": "header", "text": plain(151)}}, "invalid_blocks"},
		{"a long section", []block{{"type": "section", "text": plain(3001)}}, "invalid_blocks"},
		{"an empty section", []block{{"type": "section", "text": plain(0)}}, "invalid_blocks"},
		{"a long value", []block{button(block{"value": strings.Repeat("x", 2001)})}, "invalid_blocks"},
		{"a long address", []block{button(block{"url": "https://x/" + strings.Repeat("x", 3000)})}, "invalid_blocks"},
		{"a long confirmation", []block{button(block{"confirm": block{"title": plain(1), "text": plain(301), "confirm": plain(1),
			"deny": plain(1)}})}, "invalid_blocks"},
		{"an unknown block", []block{{"type": "alert"}}, "invalid_blocks"},
		{"a broadcast", []block{{"type": "rich_text", "elements": []block{{"type": "rich_text_section",
			"elements": []block{{"type": "broadcast", "range": "channel"}}}}}}, "invalid_blocks"},
		{"the same block_id twice", []block{{"type": "divider", "block_id": "a"}, {"type": "divider", "block_id": "a"}}, "invalid_blocks"},
		{"too much text", sections, "msg_blocks_too_long"},
	} {
		raw, err := json.Marshal(c.blocks)
		if err != nil {
			t.Fatal(err)
		}
		if code, why := checkBlocks(raw); code != c.code {
			t.Errorf("%s: %q (%s), want %q", c.name, code, why, c.code)
		}
	}
}

func plain(n int) block { return block{"type": "plain_text", "text": strings.Repeat("x", n)} }

func TestFakeRecordsEveryRefusal(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := New(Options{Burst: 1, Now: func() time.Time { return now }})
	defer s.Close()
	call := func(method string, form url.Values, want string) map[string]any {
		t.Helper()
		resp, err := http.PostForm(s.URL()+method, form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			if want != "429" || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: too fast, want %q", method, want)
			}
			return nil
		}
		var got map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if code, _ := got["error"].(string); code != want {
			t.Errorf("%s %v: %q, want %q", method, form, code, want)
		}
		return got
	}
	form := func(kv ...string) url.Values {
		f := url.Values{"token": {"xoxb-1"}}
		for i := 0; i < len(kv); i += 2 {
			f.Set(kv[i], kv[i+1])
		}
		return f
	}
	call("users.list", form(), "unknown_method")
	call("chat.postMessage", url.Values{"channel": {"#llm-oncall"}, "text": {"x"}}, "invalid_auth")
	call("chat.postMessage", form("channel", "#other", "text", "x"), "channel_not_found")
	call("chat.postMessage", form("channel", "#llm-oncall", "text", "x"), "")
	call("chat.postMessage", form("channel", "#llm-oncall", "text", "x"), "429")
	now = now.Add(time.Second)
	call("chat.postMessage", form("channel", "#llm-oncall"), "no_text")
	call("chat.update", form("channel", "#llm-oncall", "ts", "1", "text", "x"), "channel_not_found")
	call("chat.update", form("channel", "C0000ONCALL", "ts", "1", "text", "x"), "message_not_found")
	call("conversations.replies", form("channel", "C0000ONCALL", "ts", "1"), "thread_not_found")
	if len(s.Failures()) != 7 || s.Limited() != 1 || len(s.Messages()) != 1 {
		t.Errorf("failures %q, limited %d, messages %d", s.Failures(), s.Limited(), len(s.Messages()))
	}
}

func TestTiersAreEnforced(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := New(Options{Now: func() time.Time { return now }})
	defer s.Close()
	call := func() int {
		resp, err := s.Client().PostForm(s.URL()+"conversations.history", url.Values{"token": {"xoxb-1"}, "channel": {"C0000ONCALL"}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for i := range 50 {
		if code := call(); code != http.StatusOK {
			t.Fatalf("call %d of a minute: %d", i+1, code)
		}
		now = now.Add(time.Second)
	}
	if code := call(); code != http.StatusTooManyRequests || s.Limited() != 1 {
		t.Errorf("call 51 of a minute: %d, %d limited; want 429", code, s.Limited())
	}
	now = now.Add(11 * time.Second)
	if code := call(); code != http.StatusOK {
		t.Errorf("a minute after the first: %d", code)
	}
}
