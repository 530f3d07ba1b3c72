package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// start is the time at which every test begins.
var start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// Sessions are bounded per token and in total. The oldest one makes room.
func TestSessionsAreBounded(t *testing.T) {
	var s Sessions
	first := s.begin("one", start)
	for i := range sessionsOfToken {
		s.begin("one", start.Add(time.Duration(i+1)*time.Second))
	}
	if _, ok := s.token(first, start); ok || len(s.byID) != sessionsOfToken {
		t.Errorf("%d sessions of one token", len(s.byID))
	}
	for i := range 2 * sessionsKept {
		s.begin(fmt.Sprint("token-", i), start.Add(time.Minute))
	}
	if len(s.byID) > sessionsKept {
		t.Errorf("%d sessions", len(s.byID))
	}
	s.begin("late", start.Add(SessionTime+time.Hour))
	if len(s.byID) != 1 {
		t.Errorf("%d sessions, and all but one are over", len(s.byID))
	}
}

func TestTokensAndSecretsReloadAndRefuseBadFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	put := func(text string, age time.Duration) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, start, start.Add(age)); err != nil {
			t.Fatal(err)
		}
	}
	put("- {token: first-token, name: a, role: admin}", 0)
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	put("- {token: other-token, name: b, role: viewer, slack_user: U1}", time.Second)
	if _, ok, _ := tokens.lookup("first-token"); ok {
		t.Error("a token that was taken out still works")
	}
	if name, role, ok := tokens.SlackUser("U1"); !ok || name != "b" || role != state.Viewer {
		t.Error("Slack user is not found")
	}
	put("- {token: other-token, rolle: viewer}", 2*time.Second)
	if _, ok, err := tokens.lookup("other-token"); !ok || err == nil {
		t.Errorf("an invalid file was applied (%v)", err)
	}
	for text, want := range map[string]string{
		"":               "1: the file has no tokens",
		"[]":             "1: the file has no tokens",
		"a: b":           "1: the file must be a list",
		"- secret-token": "1: an entry of the file must be keys with values, not a single value; the keys are token, name, role, slack_user",
		"secret-token":   "1: the file must be a list, not a single value",
		"\t-":            "1: this is not YAML: check the indentation",
		"- {token: secret-token, role: viewer}\n- : [":                                "2: this is not YAML",
		"- {token: *secret-token, role: viewer}":                                      "1: this is not YAML",
		"# mine\n- {token: short, role: admin}":                                       "2: a token needs at least 8 characters",
		"- {token: secret-token, role: king}":                                         "1: role must be viewer, responder or admin",
		"- {token: [secret-token], role: admin}":                                      "1: token must be text, not a list",
		"- {token: secret-token, role: viewer}\n- {token: secret-token, role: admin}": "2: the entry has the token of the one in line 1",
		"- {token: secret-token, rolle: viewer}":                                      "1: an entry has an unknown key; did you mean role?",
		"- {token: secret-token,\n   token: secret-token, role: viewer}":              "2: token occurs twice, first in line 1",
		"- {secret-token: ada, role: viewer}":                                         "1: an entry has an unknown key; there are name, role, slack_user, token",
		"- {role: king}\n-\n- x\n- {token: secret-token, role: queen}":                "4: role must be viewer",
	} {
		put(text, 10*time.Second)
		_, err := LoadTokens(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	secret := NewSecret(path)
	put("one", 3*time.Second)
	if v, _ := secret.Value(); v != "one" {
		t.Errorf("secret %q", v)
	}
	put("two", 4*time.Second)
	if v, _ := secret.Value(); v != "two" {
		t.Errorf("secret %q", v)
	}
	t.Setenv("PARAMEDIC_TEST_SECRET", "three")
	if v, _ := NewSecret("${PARAMEDIC_TEST_SECRET}").Value(); v != "three" {
		t.Errorf("secret %q", v)
	}
}

func TestReplaysAreBoundedAndForgotten(t *testing.T) {
	s := NewReplays(time.Minute, 2)
	if !s.Add(start, "a") || s.Add(start, "a") || !s.Add(start, "b") || s.Add(start, "c") {
		t.Error("wrong before it forgets")
	}
	if !s.Add(start.Add(2*time.Minute), "a", "c") || len(s.order) != 2 {
		t.Error("it did not forget")
	}
}

// Wrong tokens of many sources are bounded too, and so is the memory for them. A source without a
// mistake may still try.
func TestWrongTokensOfManySourcesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("- {token: viewer-token, name: vera, role: viewer}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{API: APIAuth{Tokens: tokens}, Sessions: &Sessions{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	from := func(address, token string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/incidents", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.RemoteAddr = address
		return r
	}
	ask := func(address, token string) int {
		var refused *httpio.Error
		if _, err := c.Identify(from(address, token)); errors.As(err, &refused) {
			return refused.Code
		}
		return http.StatusOK
	}
	looked := 0
	const many = sourcesKept + 500
	for i := range many {
		address := fmt.Sprintf("[2001:db8:%x:%x::%x]:1000", i>>8, i&0xff, i)
		for n := range 2 {
			if ask(address, fmt.Sprint("guess-number-", n, "-", i)) == 401 {
				looked++
			}
		}
	}
	if most := many + guessesTotal; looked > most || len(c.guesses.sources) > sourcesKept {
		t.Errorf("%d guesses were looked at, %d sources are remembered", looked, len(c.guesses.sources))
	}
	if code := ask("192.0.2.9:1000", "viewer-token"); code != http.StatusOK {
		t.Errorf("a source without a mistake gets %d", code)
	}
	same := source(from("[2001:db8::1]:1", ""))
	if same != source(from("[2001:db8::ffff:2]:1", "")) || same == source(from("[2001:db8:0:1::1]:1", "")) {
		t.Errorf("an IPv6 network is %s", same)
	}
}
