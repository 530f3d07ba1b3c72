package lab

import "time"

// A Clock is simulated time that began at a moment and runs at a multiple of real time. It is a state.Clock, so that a whole
// bot can live in it.
type Clock struct {
	from  time.Time // on the machine's clock
	start time.Time
	speed float64
}

// NewClock starts a clock at a simulated moment, speed times as fast as real time.
func NewClock(start time.Time, speed float64) *Clock {
	return &Clock{from: time.Now(), start: start, speed: speed}
}

// Now is the simulated time, in UTC.
func (c *Clock) Now() time.Time {
	return c.start.Add(time.Duration(float64(time.Since(c.from)) * c.speed)).UTC()
}

// After sends the simulated time once d of it has passed. Nothing has to be stopped where nobody waits any more.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	out := make(chan time.Time, 1)
	time.AfterFunc(c.Real(d), func() { out <- c.Now() })
	return out
}

// Real is how long a simulated duration takes on the machine's clock.
func (c *Clock) Real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.speed) }
