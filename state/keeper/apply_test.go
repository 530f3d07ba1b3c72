package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
)

// A heldStore holds commits with records back until the test lets one through, with an error or
// without.
type heldStore struct {
	state.Store
	waiting chan struct{} // takes a value for each commit that waits
	gate    chan error    // closed: all commits go through
}

func (s *heldStore) Commit(ctx context.Context, partition int, fence state.Fence, position uint64,
	records []state.Record) (state.Fence, error) {
	if len(records) == 0 {
		return s.Store.Commit(ctx, partition, fence, position, records)
	}
	select {
	case s.waiting <- struct{}{}:
	case <-ctx.Done():
		return state.Fence{}, ctx.Err()
	}
	select {
	case err := <-s.gate:
		if err != nil {
			return state.Fence{}, err
		}
	case <-ctx.Done():
		return state.Fence{}, ctx.Err()
	}
	return s.Store.Commit(ctx, partition, fence, position, records)
}

// A countingTriage counts the alerts that were applied.
type countingTriage struct {
	poolTriage
	alerts *atomic.Int64
}

func (c countingTriage) Classify(a state.Alert, cluster string) state.Sign {
	c.alerts.Add(1)
	return c.poolTriage.Classify(a, cluster)
}

// startHeld runs a keeper whose first commit, of one alert, waits at the gate. Behind it wait
// three inputs whose changes fill a commit each.
func startHeld(t *testing.T, inOne int) (b *bot, store *heldStore, clock *handClock, applied *atomic.Int64) {
	t.Helper()
	inner := openIn(t, t.TempDir())
	clock = newHandClock()
	store = &heldStore{Store: inner, waiting: make(chan struct{}), gate: make(chan error)}
	applied = &atomic.Int64{}
	b = run(t, inner, keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: countingTriage{alerts: applied}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	if err := b.Loading(); err != nil {
		t.Errorf("a ready bot is still loading: %v", err)
	}
	if err := b.Append(t.Context(), alert("first", "pool", clock.Now())); err != nil {
		t.Fatal(err)
	}
	<-store.waiting
	for i := range 3 {
		in := alert("x", "pool", clock.Now())
		batch := *in.Alerts
		batch.Alerts = nil
		for n := range inOne {
			a := in.Alerts.Alerts[0]
			a.Fingerprint = state.Fingerprint(fmt.Sprintf("%d-%d", i, n))
			batch.Alerts = append(batch.Alerts, a)
		}
		in.Alerts = &batch
		if err := b.Append(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	return b, store, clock, applied
}

// open lets all commits through, until the test ends.
func (s *heldStore) open(t *testing.T) {
	done := make(chan struct{})
	var letting sync.WaitGroup
	letting.Go(func() {
		for {
			select {
			case <-s.waiting:
			case s.gate <- nil:
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() { close(done); letting.Wait() })
}

// While a full commit is written, the keeper applies the next inputs. Readers see nothing of both
// before they are committed.
func TestInputsAreAppliedDuringACommit(t *testing.T) {
	const inOne = 400
	b, store, _, applied := startHeld(t, inOne)
	store.gate <- nil
	<-store.waiting // the commit of the second input
	until(t, "the third input is applied", func() bool { return applied.Load() >= 1+2*inOne })
	seen := make(chan int, 1)
	go func() { seen <- b.Incidents()[0].AlertCount }()
	select {
	case n := <-seen:
		t.Fatalf("a reader saw %d alerts before they were committed", n)
	default:
	}
	store.open(t)
	<-seen
	until(t, "all alerts are part of the incident", func() bool { return b.Incidents()[0].AlertCount == 1+3*inOne })
}

// If a commit fails, what was applied during it is dropped, and applied again after a retry: no
// alert is lost or counted twice.
func TestFailedCommitDropsWhatFollows(t *testing.T) {
	const inOne = 400
	b, store, clock, applied := startHeld(t, inOne)
	store.gate <- nil
	<-store.waiting
	until(t, "the third input is applied", func() bool { return applied.Load() >= 1+2*inOne })
	store.gate <- fmt.Errorf("%w: the disk is full", state.ErrUnavailable)
	store.open(t)
	until(t, "all alerts are part of the incident", func() bool {
		clock.advance(time.Second) // the keeper waits before it tries again
		all := b.Incidents()
		return len(all) == 1 && all[0].AlertCount == 1+3*inOne
	})
	if got := len(b.Alerts(b.Incidents()[0].ID)); got != 1+3*inOne {
		t.Errorf("%d alerts, want %d", got, 1+3*inOne)
	}
}
