package access

import (
	"sync"
	"time"
)

// Replays remember keys for a while, and no more than a number of them.
type Replays struct {
	keep time.Duration
	most int

	mu    sync.Mutex
	at    map[string]time.Time
	order []string // oldest first
}

// NewReplays returns a memory that keeps at most that many keys for that long.
func NewReplays(keep time.Duration, most int) *Replays {
	return &Replays{keep: keep, most: most, at: map[string]time.Time{}}
}

// Has says whether the key is remembered.
func (s *Replays) Has(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	_, ok := s.at[key]
	return ok
}

// Add remembers the keys. It is false where one was remembered already, or where there is no room:
// a memory that forgets early could be flushed by whoever wants to replay.
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
