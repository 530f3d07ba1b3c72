package outbox_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/state"
	"paramedic/state/outbox"
)

// A lease is held for a number of questions.
type lease struct {
	left    atomic.Int64
	changed chan struct{}
}

func heldFor(questions int64) *lease {
	l := &lease{changed: make(chan struct{})}
	l.left.Store(questions)
	return l
}

func (l *lease) Held() bool               { return l.left.Add(-1) >= 0 }
func (l *lease) Changed() <-chan struct{} { return l.changed }

// A process that was stopped after it took an effect goes on without the lease.
func TestNothingIsDeliveredAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(notify("a", "slack")), heldFor(1)
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
		w, l := newWorld(notify("a", "slack")), heldFor(math.MaxInt64)
		var before, after error
		stop := run(t, w, func(ctx context.Context, e state.Effect) outbox.Result {
			before = state.StillHeld(ctx)
			res := hang(ctx, e)
			after = state.StillHeld(ctx)
			return res
		}, func(c *outbox.Config) { c.Lease = l })
		synctest.Wait()
		l.left.Store(0)
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

// A lease that lapses, because a renewal is late, and is renewed before anyone took it over has not
// changed. Meanwhile the dispatcher waits, and does not turn around without a pause.
func TestLapsedLeaseIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(notify("a", "slack")), heldFor(0)
		delivered := 0
		stop := run(t, w, func(context.Context, state.Effect) outbox.Result {
			delivered++
			return outbox.Result{Outcome: state.Outcome{Done: true}}
		}, func(c *outbox.Config) { c.Lease = l })
		synctest.Wait()
		if asked := -l.left.Load(); delivered > 0 || asked > 3 {
			t.Errorf("without the lease, %d effects were delivered and it was asked for %d times at once", delivered, asked)
		}
		l.left.Store(math.MaxInt64)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if delivered != 1 {
			t.Errorf("after the renewal %d effects were delivered", delivered)
		}
	})
}

// A process that hands over lets the calls in flight finish. What waits for a rate limit, and what
// has only read, is left to the next process without a trace.
func TestHandOverEndsWaitsNotCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(notify("called", "slack"), notify("waits", "pagerduty"), state.Effect{ID: "reads", Kind: state.EffectEnrich, Cluster: "prod"})
		h := handler(func(ctx context.Context, e state.Effect) outbox.Result {
			switch e.ID {
			case "called":
				if err := state.StillHeld(ctx); err != nil {
					t.Error(err)
				}
				select {
				case <-time.After(time.Second):
					return outbox.Result{Outcome: state.Outcome{Done: true}}
				case <-ctx.Done():
					t.Error("the call was cut off")
				}
			case "waits":
				_ = state.StillHeld(ctx) // for an earlier call of the delivery
				<-state.Leaving(ctx)
			case "reads":
				<-ctx.Done()
				if state.StillHeld(ctx) == nil {
					t.Error("a call may begin after the handover")
				}
			}
			return outbox.Result{Outcome: state.Outcome{Error: state.ErrNotHeld.Error()}}
		})
		d, err := outbox.New(outbox.Config{Source: w, Log: w, Lease: heldFor(math.MaxInt64), Clock: state.SystemClock{},
			Handlers: map[state.EffectKind]outbox.Handler{state.EffectNotify: h, state.EffectEnrich: h}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Run(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		d.HandOver(t.Context())
		if took := time.Since(began); took != time.Second {
			t.Errorf("the handover took %s, and the call one second", took)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(w.appended) != 1 || w.appended[0][0].Outcome.Effect != "called" {
			t.Errorf("it reports %+v, want the outcome of the call alone", w.appended)
		}
	})
}
