package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"paramedic/internal/text"
)

// SessionCookie is the cookie of a login to the pages. It holds a random ID, which is worth nothing
// once the session has ended.
const SessionCookie = "paramedic_session"

const (
	// SessionTime is how long a login lasts.
	SessionTime     = 12 * time.Hour
	sessionsKept    = 1000
	sessionsOfToken = 20
)

// Sessions are the logins to the pages, in memory: a restart ends them all. Each stands on its
// token, so that it ends when the token is taken out of the file, and has the role that the token
// has now. The zero value is ready.
type Sessions struct {
	mu   sync.Mutex
	byID map[string]session
}

type session struct {
	token [sha256.Size]byte
	ends  time.Time
}

// begin makes a session. Where there are too many, the one ends that began first: of the same
// token, or of all.
func (s *Sessions) begin(token string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := session{sha256.Sum256([]byte(token)), now.Add(SessionTime)}
	var oldest, oldestOwn string
	own := 0
	for id, one := range s.byID {
		if !now.Before(one.ends) {
			delete(s.byID, id)
			continue
		}
		if oldest == "" || one.ends.Before(s.byID[oldest].ends) {
			oldest = id
		}
		if one.token != made.token {
			continue
		}
		if own++; oldestOwn == "" || one.ends.Before(s.byID[oldestOwn].ends) {
			oldestOwn = id
		}
	}
	switch {
	case own >= sessionsOfToken:
		delete(s.byID, oldestOwn)
	case len(s.byID) >= sessionsKept:
		delete(s.byID, oldest)
	}
	if s.byID == nil {
		s.byID = map[string]session{}
	}
	id := rand.Text()
	s.byID[id] = made
	return id
}

// token returns the hash of the token that a session stands on.
func (s *Sessions) token(id string, now time.Time) ([sha256.Size]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.byID[id]
	return one.token, ok && now.Before(one.ends)
}

func (s *Sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// ErrLogin is a token that is not known; ErrGuesses means that too many were tried, and this one
// was not looked at.
var (
	ErrLogin   = errors.New("the token is not known")
	ErrGuesses = errors.New("too many tokens were tried that are not known: wait a minute")
)

// Login begins a session for a token and returns its ID, for the cookie [SessionCookie].
func (s *Server) Login(r *http.Request, token string) (id string, err error) {
	if s.API.Tokens == nil {
		return "", ErrLogin
	}
	if _, err := s.known(r, token); err != nil {
		return "", err
	}
	return s.Sessions.begin(token, s.Clock.Now()), nil
}

// Logout ends the session of a request, if it has one.
func (s *Server) Logout(r *http.Request) {
	if cookie, err := r.Cookie(SessionCookie); err == nil {
		s.Sessions.end(cookie.Value)
	}
}

// known returns the entry of a token that somebody presents. A wrong one counts as a guess.
func (s *Server) known(r *http.Request, token string) (Token, error) {
	now, from := s.Clock.Now(), source(r)
	if !s.guesses.may(from, token, now) {
		return Token{}, ErrGuesses
	}
	t, ok, err := s.API.Tokens.lookup(token)
	if err != nil {
		s.Logger.Warn("changed tokens file is not applied", "err", err)
	}
	if ok {
		return t, nil
	}
	if counted, last := s.guesses.failed(from, token, now); counted {
		s.Logger.Warn("a token was tried that is not in auth.api.tokens_file", "source", from, "path", text.Line(r.URL.Path, 100), "refused_from_now", last)
	}
	return Token{}, ErrLogin
}

// bySum finds the entry of a token by its hash.
func (t *Tokens) bySum(sum [sha256.Size]byte) (Token, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	if i := slices.Index(t.sums, sum); i >= 0 { // the hash came out of a session, not from outside
		return t.tokens[i], true, err
	}
	return Token{}, false, err
}
