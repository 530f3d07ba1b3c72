package pagerdutytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestFakeRefusesInvalidEvents(t *testing.T) {
	s := New(Options{PerMinute: 3})
	defer s.Close()
	const key = "0123456789abcdef0123456789abcdef"
	event := func(routing, action, dedup, summary, severity string) string {
		return fmt.Sprintf(`{"routing_key":%q,"event_action":%q,"dedup_key":%q,"payload":{"summary":%q,"source":"s","severity":%q}}`, routing, action, dedup, summary, severity)
	}
	for _, c := range []struct {
		body string
		want int
	}{
		{event("short", "trigger", "a", "s", "info"), 400},
		{event(key, "trigger", "a", strings.Repeat("x", 1025), "info"), 400},
		{event(key, "trigger", "a", "", "info"), 400},
		{event(key, "trigger", "a", "s", "urgent"), 400},
		{event(key, "page", "a", "s", "info"), 400},
		{event(key, "trigger", strings.Repeat("k", 256), "s", "info"), 400},
		{`{"unknown":1}`, 400},
		{event(key, "trigger", "a", strings.Repeat("x", 600<<10), "info"), 413},
		{event(key, "trigger", "a", "s", "info"), 202},
		{event(key, "resolve", "a", "", ""), 202},
		{event(key, "trigger", "a", "s", "info"), 202}, // after a resolve: a second incident
		{event(key, "resolve", "b", "", ""), 429},
	} {
		resp, err := http.Post(s.URL()+"/v2/enqueue", "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%.120s: %d, want %d", c.body, resp.StatusCode, c.want)
		}
	}
	if len(s.Failures()) != 8 || len(s.Incidents()) != 2 || s.Limited() != 1 {
		t.Errorf("failures %q, incidents %v, limited %d", s.Failures(), s.Incidents(), s.Limited())
	}
}

func TestFakeRefusesInvalidChanges(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	const key = "0123456789abcdef0123456789abcdef"
	change := func(routing, summary, more string) string {
		return fmt.Sprintf(`{"routing_key":%q,"payload":{"summary":%q,"source":"s"}%s}`, routing, summary, more)
	}
	for body, want := range map[string]int{
		change("short", "s", ""):                             400,
		change("R"+key[1:], "s", ""):                         400,
		change(key, "", ""):                                  400,
		change(key, strings.Repeat("x", 1025), ""):           400,
		change(key, "s", `,"dedup_key":"a"`):                 400, // a change has no key
		change(key, "s", `,"links":[{"text":"no address"}]`): 400,
		change(key, "s", ""):                                 202,
	} {
		resp, err := http.Post(s.URL()+"/v2/change/enqueue", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%.120s: %d, want %d", body, resp.StatusCode, want)
		}
	}
	if len(s.Failures()) != 6 || len(s.Changes()) != 1 || len(s.Incidents()) != 0 {
		t.Errorf("failures %q, changes %q, incidents %v", s.Failures(), s.Changes(), s.Incidents())
	}
}
