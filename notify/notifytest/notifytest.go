// Package notifytest holds what the tests of the notifiers share: the sample incident, a clock, and
// the faults and failures of the fake vendors.
package notifytest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"paramedic/notify"
)

// Facts returns the sample incident that every notifier's tests show. It reads the file from the
// folder beside the test's package.
func Facts(t testing.TB) notify.Facts {
	t.Helper()
	b, err := os.ReadFile("../testdata/facts.json")
	if err != nil {
		t.Fatal(err)
	}
	var f notify.Facts
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// Secret returns a source of the secret value.
func Secret(value string) func() (string, error) {
	return func() (string, error) { return value, nil }
}

// A Clock is a clock on which no wait takes time.
type Clock struct{ Time time.Time }

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return c.Time }

// After moves the clock forward by d and returns a channel that is ready.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.Time = c.Time.Add(d)
	ready := make(chan time.Time, 1)
	ready <- c.Time
	return ready
}

// A FailureLog keeps the requests that a vendor would have refused. It is safe for concurrent use.
type FailureLog struct {
	mu   sync.Mutex
	list []string
}

// Fail records a request that the vendor would have refused.
func (l *FailureLog) Fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

// Failures returns the requests that the vendor would have refused, in words.
func (l *FailureLog) Failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// Faults holds the faults that a test injects into a fake vendor. It is safe for concurrent use.
type Faults[F any] struct {
	mu   sync.Mutex
	list []fault[F]
}

type fault[F any] struct {
	kind F
	left int // calls
}

// Add injects f into the next calls: times of them, or one if times is zero.
func (q *Faults[F]) Add(f F, times int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, fault[F]{f, max(times, 1)})
}

// Take returns the first fault that matches a call, in the order in which they were injected, and
// uses it up by one call.
func (q *Faults[F]) Take(matches func(F) bool) (f F, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.list {
		if q.list[i].left > 0 && matches(q.list[i].kind) {
			q.list[i].left--
			return q.list[i].kind, true
		}
	}
	return f, false
}
