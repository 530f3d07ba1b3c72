package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"paramedic/state"
	"paramedic/state/outbox"
)

// A lease is held until it is lost. The source then has no effects, as an unloaded keeper.
type lease struct {
	w       *world
	lost    atomic.Bool
	changed chan struct{}
}

func (l *lease) Held() bool {
	if !l.lost.Load() {
		return true
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	clear(l.w.effects)
	return false
}

func (l *lease) Changed() <-chan struct{} { return l.changed }

// A process that was stopped after it took an effect goes on without the lease.
func TestNothingIsDeliveredAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		l := &lease{w: w, changed: make(chan struct{})}
		l.lost.Store(true)
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			t.Error("an effect was delivered without the lease")
			return hang(ctx, e)
		}, func(c *outbox.Config) { c.Lease = l })
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(w.appended) > 0 {
			t.Errorf("it reports %+v", w.appended)
		}
	})
}

// A delivery that still waits, for instance for a rate limit, ends. The new process repeats it.
func TestDeliveryEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("a", "slack"))
		l := &lease{w: w, changed: make(chan struct{})}
		var before, after error
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			before = state.StillHeld(ctx)
			res := hang(ctx, e)
			after = state.StillHeld(ctx)
			return res
		}, func(c *outbox.Config) { c.Lease = l })
		synctest.Wait()
		l.lost.Store(true)
		close(l.changed)
		synctest.Wait()
		if before != nil || !errors.Is(after, state.ErrNotHeld) {
			t.Errorf("the adapter sees %v with the lease, %v without", before, after)
		}
		if len(w.appended) > 0 {
			t.Errorf("it reports %+v", w.appended)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
