package access

import (
	"sync"
	"time"
)

// Replays holds the keys of recent requests, up to a number, so that a repeated request is found.
type Replays struct {
	keep time.Duration
	most int

	mu    sync.Mutex
	at    map[string]time.Time
	order []string // oldest first
}

// NewReplays returns an empty memory that keeps at most `most` keys, each for `keep`.
func NewReplays(keep time.Duration, most int) *Replays {
	return &Replays{keep: keep, most: most, at: map[string]time.Time{}}
}

// Has reports whether the key is remembered.
func (s *Replays) Has(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	_, ok := s.at[key]
	return ok
}

// Add remembers the keys. It returns false if one is remembered already, or if there is no room:
// forgetting early would let an attacker flush the memory and replay a request.
func (s *Replays) Add(now time.Time, keys ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	if len(s.at)+len(keys) > s.most {
		return false
	}
	for _, key := range keys {
		if _, ok := s.at[key]; ok {
			return false
		}
	}
	for _, key := range keys {
		s.at[key] = now
		s.order = append(s.order, key)
	}
	return true
}

func (s *Replays) forget(now time.Time) {
	n := 0
	for n < len(s.order) && now.Sub(s.at[s.order[n]]) > s.keep {
		delete(s.at, s.order[n])
		n++
	}
	s.order = s.order[n:]
}
