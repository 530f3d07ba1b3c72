package access_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/hooktest"
)

// The cookie holds a session's ID, not the token. The session ends with the logout, and has the
// role that the token has now.
func TestSessionEndsWithLogoutTokenAndTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	n := 0
	put := func(text string) {
		n++
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, hooktest.Start, hooktest.Start.Add(time.Duration(n)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	put("- {token: ana-token, name: ana, role: responder}\n- {token: ben-token, name: ben, role: admin}\n")
	tokens, err := access.LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	s, clock := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) { c.API = access.APIAuth{Tokens: tokens} })
	ask := func(cookie string) int {
		return hooktest.Do(s, "GET", "/api/v1/incidents", "", "Cookie", cookie).Code
	}
	ana, ben := hooktest.Login(t, s, "ana-token"), hooktest.Login(t, s, "ben-token")
	if strings.Contains(ana, "token") || len(ana) < len(access.SessionCookie)+20 || ana == hooktest.Login(t, s, "ana-token") {
		t.Fatalf("the cookie is %s", ana)
	}
	for _, forged := range []string{access.SessionCookie + "=ana-token", "paramedic_token=ana-token", access.SessionCookie + "=",
		access.SessionCookie + "=" + strings.Repeat("A", 26)} {
		if code := ask(forged); code != 401 {
			t.Errorf("%s is answered with %d", forged, code)
		}
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", "", "Cookie", ana), 200, `"acked_by":"ana"`)
	s.Logout(hooktest.Request("POST", "127.0.0.1", "/logout", "", "Cookie", ana))
	if code := ask(ana); code != 401 {
		t.Errorf("after the logout: %d", code)
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/resume", "", "Cookie", ben), 200)
	put("- {token: ana-token, name: ana, role: responder}\n- {token: ben-token, name: ben, role: viewer}\n")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/resume", "", "Cookie", ben), 403, "viewer")
	put("- {token: ana-token, name: ana, role: responder}\n")
	if code := ask(ben); code != 401 {
		t.Errorf("after the token was taken out: %d", code)
	}
	ana = hooktest.Login(t, s, "ana-token")
	clock.Advance(access.SessionTime - time.Second)
	if code := ask(ana); code != 200 {
		t.Errorf("within its time: %d", code)
	}
	clock.Advance(time.Second)
	if code := ask(ana); code != 401 {
		t.Errorf("after its time: %d", code)
	}
}

// An event stream ends with the session that opened it.
func TestLogoutEndsTheEventStream(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	srv := httptest.NewServer(s)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	cookie := hooktest.Login(t, s, "viewer-token")
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // it is subscribed
	s.Logout(hooktest.Request("POST", "127.0.0.1", "/logout", "", "Cookie", cookie))
	w.Tell(w.Entries[0])
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			t.Error("an entry came after the logout")
		}
	}
}

// from returns a request from an address, with a token.
func from(address, token string) *http.Request {
	r := hooktest.Request("GET", "127.0.0.1", "/api/v1/incidents", "", "Authorization", "Bearer "+token)
	r.RemoteAddr = address
	return r
}

const (
	guessesAtOnce = 10               // wrong tokens of one source
	guessEvery    = 10 * time.Second // afterwards one per interval
)

// Wrong tokens are counted per source, refused above a limit, and logged without the token. The
// allowance returns with time. A program that repeats its old token counts once, and other sources
// and sessions are not affected.
func TestWrongTokensOfOneSourceAreBounded(t *testing.T) {
	var log bytes.Buffer
	s, clock := hooktest.Serve(t, hooktest.NewWorld().Populate(), func(c *webhook.Config) {
		hooktest.WithTokens(t)(c)
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	session := hooktest.Login(t, s, "viewer-token")
	for range 50 {
		hooktest.Expect(t, hooktest.Answer(s, from("192.0.2.1:1000", "revoked-token")), 401)
	}
	for i := range guessesAtOnce - 1 {
		hooktest.Expect(t, hooktest.Answer(s, from(fmt.Sprintf("192.0.2.1:%d", 2000+i), fmt.Sprint("guess-number-", i))), 401)
	}
	refused := hooktest.Answer(s, from("192.0.2.1:3000", "viewer-token"))
	hooktest.Expect(t, refused, 429, "wait a minute")
	if refused.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if _, err := s.Login(from("192.0.2.1:4000", ""), "viewer-token"); err != access.ErrGuesses { //nolint:errorlint // it is given as it is
		t.Errorf("a login: %v", err)
	}
	hooktest.Expect(t, hooktest.Answer(s, from("192.0.2.2:1000", "viewer-token")), 200)
	r := hooktest.Request("GET", "127.0.0.1", "/api/v1/incidents", "", "Cookie", session)
	r.RemoteAddr = "192.0.2.1:5000"
	hooktest.Expect(t, hooktest.Answer(s, r), 200)
	if n := strings.Count(log.String(), "a client sent a token"); n != guessesAtOnce || strings.Contains(log.String(), "guess-number") ||
		!strings.Contains(log.String(), "source=192.0.2.1") {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	clock.Advance(guessEvery)
	hooktest.Expect(t, hooktest.Answer(s, from("192.0.2.1:3000", "viewer-token")), 200)
}
