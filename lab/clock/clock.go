// Package clock runs simulated time at any multiple of real time, for a fleet and for a bot that
// watches it.
package clock

import (
	"sync"
	"time"
)

// A Clock runs simulated time at a multiple of real time. It is a state.Clock, so that a whole bot
// can run on it. It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	from    time.Time // real time of the last look
	start   time.Time // simulated time of the last look
	speed   float64
	waiting map[*time.Timer]time.Time // simulated times at which they fire
	end     time.Time                 // the clock stops here until RunUntil moves it; zero: it never stops
}

// New starts a clock at a simulated moment, speed times as fast as real time.
func New(start time.Time, speed float64) *Clock {
	return &Clock{from: time.Now(), start: start, speed: speed, waiting: map[*time.Timer]time.Time{}}
}

// Now returns the simulated time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	real := time.Now()
	c.start, c.from = c.start.Add(time.Duration(float64(real.Sub(c.from))*c.speed)).UTC(), real
	if !c.end.IsZero() && c.start.After(c.end) {
		c.start = c.end
	}
	return c.start
}

// RunUntil lets the clock run until a simulated moment plus some real time at the present speed. It
// then stands still until the next call. A simulation calls it after each step with the moment that
// it has reached. A busy machine then slows the simulated time down, and no reader of the clock is
// further ahead of the simulation.
func (c *Clock) RunUntil(reached time.Time, ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, end := c.now(), reached.Add(time.Duration(float64(ahead)*c.speed))
	if end.Before(now) {
		end = now // time never goes back
	}
	c.end = end
}

// look is the real time between two looks of a waiter at a clock that stands still.
const look = 5 * time.Millisecond

// After sends the simulated time once d of it has passed. A caller that no longer waits has nothing
// to stop.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	out := make(chan time.Time, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	var t *time.Timer
	t = time.AfterFunc(c.real(d), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := c.now()
		if left := c.real(c.waiting[t].Sub(now)); left > 0 { // the clock has slowed down or stopped since
			t.Reset(max(left, look))
			return
		}
		delete(c.waiting, t)
		out <- now
	})
	c.waiting[t] = c.now().Add(d)
	return out
}

// real converts a simulated duration to real time at the present speed.
func (c *Clock) real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.speed) }

// SetSpeed changes the speed from now on, also for callers that already wait.
func (c *Clock) SetSpeed(speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	c.speed = speed
	for t, until := range c.waiting {
		if t.Stop() { // otherwise it is about to send
			t.Reset(c.real(until.Sub(c.start)))
		}
	}
}
