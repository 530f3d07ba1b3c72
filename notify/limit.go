package notify

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"paramedic/state"
)

// A Limiter keeps calls below a channel's rate, on the given clock. It is safe for concurrent use.
type Limiter struct {
	clock state.Clock
	rate  *rate.Limiter
	// patience is the longest time that Wait blocks. For a longer wait it returns a Later to the
	// outbox.
	patience time.Duration

	every time.Duration
	after func() time.Time // nil: no other process made calls
	left  int

	mu      sync.Mutex
	closed  time.Time // no call before this time, as the vendor asked
	waiting int       // calls in Wait
	taken   time.Time // the takeover that was taken into account
}

// NewLimiter returns a limiter of one call per interval, with a burst.
func NewLimiter(clock state.Clock, every time.Duration, burst int, patience time.Duration) *Limiter {
	return &Limiter{clock: clock, rate: rate.NewLimiter(rate.Every(every), burst), patience: patience, every: every}
}

// After makes the limiter begin without its burst at the time that takenOver returns, but for some
// calls that are left. Another process made calls until then, and may have spent the burst. A zero
// time means that there was none.
func (l *Limiter) After(takenOver func() time.Time, left int) *Limiter {
	l.after, l.left = takenOver, left
	return l
}

// begin spends the burst if this process has taken over since the last call.
func (l *Limiter) begin() {
	if l.after == nil {
		return
	}
	at := l.after()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !at.After(l.taken) {
		return
	}
	l.taken = at
	if spent := int(l.rate.TokensAt(at)) - l.left; spent > 0 {
		l.rate.AllowN(at, spent)
	}
}

var errTooFast = errors.New("waiting for our own rate limit")

// Wait blocks until a call may be made. If that takes longer than the limiter's patience, it
// returns a Later, and the call must not be made.
func (l *Limiter) Wait(ctx context.Context) error {
	l.begin()
	now := l.clock.Now()
	if err := l.shut(now); err != nil {
		return err
	}
	l.count(1)
	defer l.count(-1)
	turn := l.rate.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > l.patience {
		turn.CancelAt(now)
		return &Later{After: wait, Err: errTooFast}
	}
	if wait <= 0 {
		return l.stillHeld(ctx)
	}
	select {
	case <-l.clock.After(wait):
		return l.stillHeld(ctx)
	case <-state.Leaving(ctx):
		turn.CancelAt(l.clock.Now())
		return &Later{After: wait, Err: state.ErrNotHeld}
	case <-ctx.Done():
		turn.CancelAt(l.clock.Now())
		return &Later{After: wait, Err: ctx.Err()}
	}
}

// WaitBehind is Wait for a call that lets the calls in Wait go first.
func (l *Limiter) WaitBehind(ctx context.Context) error {
	l.begin()
	for waited := time.Duration(0); ; waited += l.every {
		now := l.clock.Now()
		if err := l.shut(now); err != nil {
			return err
		}
		l.mu.Lock()
		free := l.waiting == 0 && l.rate.AllowN(now, 1)
		l.mu.Unlock()
		if free {
			return l.stillHeld(ctx)
		}
		if waited+l.every > l.patience {
			return &Later{After: l.every, Err: errTooFast}
		}
		select {
		case <-l.clock.After(l.every):
		case <-state.Leaving(ctx):
			return &Later{After: l.every, Err: state.ErrNotHeld}
		case <-ctx.Done():
			return &Later{After: l.every, Err: ctx.Err()}
		}
	}
}

// Free returns how many calls may be made now without a wait, and when there is one more.
func (l *Limiter) Free(now time.Time) (calls int, more time.Time) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed.After(now) {
		return 0, closed
	}
	tokens := l.rate.TokensAt(now)
	whole := math.Floor(tokens)
	wait := time.Duration((whole + 1 - tokens) * float64(l.every))
	return max(0, int(whole)), now.Add(max(0, wait) + time.Millisecond) // tokens are not exact
}

// stillHeld returns a Later if another process delivers now.
func (l *Limiter) stillHeld(ctx context.Context) error {
	if err := state.StillHeld(ctx); err != nil {
		return &Later{After: l.every, Err: err}
	}
	return nil
}

// shut returns a Later while the limiter is closed.
func (l *Limiter) shut(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.closed.Sub(now); wait > 0 {
		return &Later{After: wait, Err: errTooFast}
	}
	return nil
}

func (l *Limiter) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += n
}

// Close makes every call wait until d has passed, after the vendor reported too many calls.
func (l *Limiter) Close(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.clock.Now().Add(d); until.After(l.closed) {
		l.closed = until
	}
}
