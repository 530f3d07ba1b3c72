package access

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// SessionCookie is the name of the cookie of a login. Its value is a random ID, which is useless
// once the session has ended.
const SessionCookie = "paramedic_session"

const (
	// SessionTime is the length of a login.
	SessionTime     = 12 * time.Hour
	sessionsKept    = 1000
	sessionsOfToken = 20
)

// Sessions holds the logins to the pages in memory: a restart ends them all. A session has the role
// that its token has now, and ends when the token leaves the file. The zero value is ready.
type Sessions struct {
	mu   sync.Mutex
	byID map[string]session
}

type session struct {
	token [sha256.Size]byte
	ends  time.Time
}

// begin starts a session. If there are too many, it ends the oldest: of the same token, or of all.
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

// token returns the hash of the token that began a session.
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

// ErrLogin reports an unknown token. ErrGuesses reports that too many wrong tokens were tried, and
// that this one was not compared.
var (
	ErrLogin   = errors.New("the token is not in auth.api.tokens_file")
	ErrGuesses = errors.New("too many attempts with unknown tokens: wait a minute")
)
