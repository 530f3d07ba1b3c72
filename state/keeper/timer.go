package keeper

import (
	"context"
	"math"
	"time"

	"paramedic/state"
)

// runTimer appends a tick when a timer of the board expires, and a step of the clock when it sees
// one, until the context ends.
func (k *Keeper) runTimer(ctx context.Context, p *partition) {
	watch := newStepWatch(k.cfg.Clock)
	for ctx.Err() == nil {
		now := k.cfg.Clock.Now()
		step := watch.step(now)
		p.mu.RLock()
		due, cluster := p.board.NextDue()
		if step != 0 {
			cluster = p.board.ClockCluster()
		}
		p.mu.RUnlock()
		tick := state.Input{At: now, Cluster: cluster}
		if step != 0 {
			tick.Clock = &state.ClockStep{By: step}
		}
		if !due.IsZero() && !due.After(now) || step != 0 && cluster != "" {
			if err := k.cfg.Store.Append(ctx, tick); err == nil {
				watch.rest(now)
			} else if ctx.Err() == nil {
				k.cfg.Logger.WarnContext(ctx, "a timer could not be written, Paramedic tries again", "partition", p.n, "err", err)
			}
			// Wait until the tick is applied, or for retryPause if the append failed.
			select {
			case <-ctx.Done():
			case <-p.wake:
			case <-k.cfg.Clock.After(retryPause):
			}
			continue
		}
		watch.rest(now)
		wait := watch.every()
		if !due.IsZero() {
			wait = min(wait, due.Sub(now))
		}
		var alarm <-chan time.Time
		if wait < forever {
			alarm = k.cfg.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-alarm:
		}
	}
}

const (
	// leastStep is the smallest step of the clock that matters. Less is lost in the load of the
	// machine.
	leastStep = 10 * time.Second
	stepEvery = 5 * time.Second
	forever   = time.Duration(math.MaxInt64)
)

// A stepWatch finds steps of a clock that knows how much time has passed.
type stepWatch struct {
	clock   state.Steady // nil: another clock, which makes no steps
	at      time.Time
	elapsed time.Duration
}

func newStepWatch(c state.Clock) *stepWatch {
	w := &stepWatch{}
	w.clock, _ = c.(state.Steady)
	w.rest(c.Now())
	return w
}

// step returns by how much the clock was set to another time since the last rest, or 0.
func (w *stepWatch) step(now time.Time) time.Duration {
	if w.clock == nil {
		return 0
	}
	by := now.Round(0).Sub(w.at) - (w.clock.Elapsed() - w.elapsed)
	if by.Abs() < leastStep {
		return 0
	}
	return by
}

// rest takes the present time as right.
func (w *stepWatch) rest(now time.Time) {
	if w.clock != nil {
		w.at, w.elapsed = now.Round(0), w.clock.Elapsed()
	}
}

// every returns how often to look for a step.
func (w *stepWatch) every() time.Duration {
	if w.clock == nil {
		return forever
	}
	return stepEvery
}
