package state

import "time"

// A Clock tells the time. Everything that waits or stamps takes one, so that a test or the demo's
// accelerated fleet can pass its own.
type Clock interface {
	Now() time.Time
	// After sends the time on the channel once d has passed on this clock.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the machine's clock, in UTC.
type SystemClock struct{}

// Now is the machine's time in UTC.
func (SystemClock) Now() time.Time { return time.Now().UTC() }

// After is time.After.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
