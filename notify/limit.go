package notify

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"paramedic/state"
)

// A Limiter keeps calls below a channel's rate, on the clock that it is given. It is safe for concurrent use.
type Limiter struct {
	clock state.Clock
	rate  *rate.Limiter
	// patience is the longest that Wait blocks; a longer wait is given back to the outbox as a Later.
	patience time.Duration

	mu     sync.Mutex
	closed time.Time // no call before this: the other side asked for it
}

// NewLimiter is a limiter of one call in every interval, with a burst.
func NewLimiter(clock state.Clock, every time.Duration, burst int, patience time.Duration) *Limiter {
	return &Limiter{clock: clock, rate: rate.NewLimiter(rate.Every(every), burst), patience: patience}
}

var errTooFast = errors.New("waiting for our own rate limit")

// Wait blocks until a call may be made. Where that takes longer than the limiter's patience it returns a Later instead, and the call
// must not be made.
func (l *Limiter) Wait(ctx context.Context) error {
	now := l.clock.Now()
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if wait := closed.Sub(now); wait > 0 {
		return &Later{After: wait, Err: errTooFast}
	}
	turn := l.rate.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > l.patience {
		turn.CancelAt(now)
		return &Later{After: wait, Err: errTooFast}
	}
	if wait <= 0 {
		return nil
	}
	select {
	case <-l.clock.After(wait):
		return nil
	case <-ctx.Done():
		turn.CancelAt(l.clock.Now())
		return &Later{After: wait, Err: ctx.Err()}
	}
}

// Close makes every call wait until d has passed: the other side said that we were too fast.
func (l *Limiter) Close(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.clock.Now().Add(d); until.After(l.closed) {
		l.closed = until
	}
}
