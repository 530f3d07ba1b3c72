package hooktest

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/api"
	"paramedic/webhook/httpio"
)

// Serve returns a server over the world. change may adjust its configuration.
func Serve(t testing.TB, w *World, change func(*webhook.Config)) (*webhook.Server, *Clock) {
	t.Helper()
	clock := NewClock()
	c := webhook.Config{
		Log: w, View: w, Clock: clock, Clusters: []string{"default", "prod"},
		Alertmanager: access.AlertmanagerAuth{Open: true}, API: access.APIAuth{Open: true},
	}
	if change != nil {
		change(&c)
	}
	s := webhook.New(c)
	t.Cleanup(s.Close)
	return s, clock
}

// Do sends a request as a program on this machine would.
func Do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Expect checks the status of an answer, that it contains the words, and that an error is JSON.
func Expect(t testing.TB, w *httptest.ResponseRecorder, code int, words ...string) {
	t.Helper()
	if w.Code != code {
		t.Fatalf("answered %d, want %d: %s", w.Code, code, w.Body)
	}
	for _, word := range words {
		if !strings.Contains(w.Body.String(), word) {
			t.Fatalf("answer does not say %q: %s", word, w.Body)
		}
	}
	if code >= 400 {
		var e api.ErrorJSON
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
			t.Fatalf("error is not {\"error\": …}: %s", w.Body)
		}
	}
}

// TokensFile has a token of each role, and one without a name.
const TokensFile = `
- {token: viewer-token, name: vera, role: viewer}
- {token: responder-token, name: ana, role: responder, slack_user: U0ANA}
- {token: admin-token, name: root, role: admin}
- {token: shared-token, role: responder}
`

// WithTokens makes the API ask for a token of TokensFile.
func WithTokens(t testing.TB) func(*webhook.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(TokensFile), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := access.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *webhook.Config) { c.API = access.APIAuth{Tokens: tokens} }
}

// Request returns a request as a browser or a program sends it to the bot under the name host.
func Request(method, host, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// Answer returns what h answers.
func Answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Login begins a session and returns the Cookie header that goes with it.
func Login(t testing.TB, s *webhook.Server, token string) string {
	t.Helper()
	id, err := s.Login(Request("POST", "127.0.0.1", "/login", ""), token)
	if err != nil {
		t.Fatal(err)
	}
	return access.SessionCookie + "=" + id
}

// Refusal checks that a decoder's error, if there is one, is a clear 4xx.
func Refusal(t *testing.T, err error) {
	t.Helper()
	var a *httpio.Error
	if err != nil && (!errors.As(err, &a) || a.Code < 400 || a.Code >= 500 || a.Text == "") {
		t.Fatalf("not a clear refusal: %v", err)
	}
}
