package state

import "time"

// A Clock returns the time. Everything that waits or sets timestamps takes one, so that tests and
// the demo's accelerated fleet can pass their own.
type Clock interface {
	Now() time.Time
	// After sends the time on the channel after d has passed on this clock.
	After(d time.Duration) <-chan time.Time
}

// A Steady clock also measures how much time has passed, also if the time is set.
type Steady interface {
	Clock
	// Elapsed returns the time since some fixed moment.
	Elapsed() time.Duration
}

// SystemClock is the machine's clock, in UTC.
type SystemClock struct{}

// Now returns the machine's time in UTC.
func (SystemClock) Now() time.Time { return time.Now().UTC() }

// After calls time.After.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// began is the fixed moment of the machine's monotonic clock.
var began = time.Now()

// Elapsed implements [Steady].
func (SystemClock) Elapsed() time.Duration { return time.Since(began) }
