package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
)

// A watchedStore counts the loads of a process, and its looks at the position of another one. It
// can hold back the inputs.
type watchedStore struct {
	*jetstream.Store
	loads, looks atomic.Int64
	held         atomic.Bool
}

type heldReader struct {
	state.InputReader
	s *watchedStore
}

func (s *watchedStore) Inputs(ctx context.Context, partition int, after uint64) (state.InputReader, error) {
	r, err := s.Store.Inputs(ctx, partition, after)
	return heldReader{r, s}, err
}

func (r heldReader) Next(ctx context.Context) (state.Input, error) {
	in, err := r.InputReader.Next(ctx)
	for err == nil && r.s.held.Load() {
		select {
		case <-ctx.Done():
			return in, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return in, err
}

func (s *watchedStore) Load(ctx context.Context, partition int, decode state.Decoder) ([]any, state.Fence, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, partition, decode)
}

func (s *watchedStore) Committed(ctx context.Context, partition int) (uint64, error) {
	s.looks.Add(1)
	return s.Store.Committed(ctx, partition)
}

// A peer is one of several processes on a NATS server.
type peer struct {
	*bot
	watched *watchedStore
	lease   *handLease
}

func openAt(t *testing.T, url string) *jetstream.Store {
	t.Helper()
	store, err := jetstream.Open(t.Context(), jetstream.Config{URL: url, Replicas: 1, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func startPeer(t *testing.T, url string, triage state.Triage, active bool) *peer {
	t.Helper()
	store := openAt(t, url)
	p := &peer{watched: &watchedStore{Store: store}, lease: newHandLease(active)}
	p.bot = run(t, store, keeper.New(keeper.Config{Store: p.watched, Clock: newHandClock(), Logger: slog.New(slog.DiscardHandler), Lease: p.lease,
		Fold: &fold.Fold{Triage: triage, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	until(t, "a process is ready", func() bool { return p.Ready(t.Context()) == nil })
	return p
}

// send makes the process take alerts of as many new pools.
func (p *peer) send(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := p.Append(t.Context(), alert(fmt.Sprint(i), fmt.Sprint("pool", i), newHandClock().Now())); err != nil {
			t.Fatal(err)
		}
	}
}

// A follower that takes over continues with its copy, and reads no record. What it then commits is
// whole for the next process that loads it.
func TestTakeoverReadsNoRecord(t *testing.T) {
	url := natstest.Start(t)
	first, second := startPeer(t, url, poolTriage{}, true), startPeer(t, url, poolTriage{}, false)
	first.send(t, 0, 30)
	until(t, "the follower shows what was committed", func() bool { return len(second.Incidents()) == 30 })
	first.stop()
	loads := second.watched.loads.Load()
	second.lease.set(true)
	until(t, "it is active", func() bool { return !second.Since("prod").IsZero() && second.Ready(t.Context()) == nil })
	if again := second.watched.loads.Load() - loads; again > int64(second.watched.Partitions()-1) {
		t.Errorf("the takeover loaded %d partitions; those without a commit are %d", again, second.watched.Partitions()-1)
	}
	second.send(t, 30, 40)
	until(t, "it commits", func() bool { return len(second.Incidents()) == 40 })
	second.stop()
	third := startPeer(t, url, poolTriage{}, true)
	if n := len(third.Incidents()); n != 40 || third.Rebuilt() > 0 {
		t.Errorf("the next process has %d incidents, and has rebuilt %d partitions", n, third.Rebuilt())
	}
}

// otherRules puts every alert into an incident of its own.
type otherRules struct{ poolTriage }

func (otherRules) Correlate(state.Sign, []state.Worker, []*state.Incident, time.Time) (state.IncidentID, bool) {
	return "", false
}

// A copy that other rules made is not what was committed: the process loads that.
func TestTakeoverDropsAnotherCopy(t *testing.T) {
	url := natstest.Start(t)
	first, second := startPeer(t, url, poolTriage{}, true), startPeer(t, url, otherRules{}, false)
	first.send(t, 0, 5)
	first.send(t, 0, 5)
	if err := first.Append(t.Context(), alert("more", "pool0", newHandClock().Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "the follower has an incident for each alert", func() bool { return len(second.Incidents()) == 6 })
	first.stop()
	second.lease.set(true)
	until(t, "it shows what was committed", func() bool { return len(second.Incidents()) == 5 && second.Ready(t.Context()) == nil })
}

// A follower whose copy lags loads what was committed, and does not complete the copy first.
func TestTakeoverDropsACopyThatLags(t *testing.T) {
	url := natstest.Start(t)
	first, second := startPeer(t, url, poolTriage{}, true), startPeer(t, url, poolTriage{}, false)
	first.send(t, 0, 3)
	until(t, "the follower shows what was committed", func() bool { return len(second.Incidents()) == 3 })
	second.watched.held.Store(true)
	first.send(t, 3, 5)
	until(t, "the others are committed", func() bool { return len(first.Incidents()) == 5 })
	first.stop()
	second.lease.set(true)
	until(t, "it shows the others", func() bool { return len(second.Incidents()) == 5 })
	second.watched.held.Store(false)
	until(t, "it is active", func() bool { return !second.Since("prod").IsZero() && second.Ready(t.Context()) == nil })
}

// A follower shows what was committed only. Another process may never commit what is in the log.
func TestFollowerAwaitsTheCommit(t *testing.T) {
	url := natstest.Start(t)
	follower := startPeer(t, url, poolTriage{}, false)
	looks := follower.watched.looks.Load()
	follower.send(t, 0, 3)
	until(t, "the follower looks for a commit", func() bool { return follower.watched.looks.Load() > looks+3 })
	if n, lag := len(follower.Incidents()), follower.LagOf("prod"); n > 0 || lag.Inputs != 3 {
		t.Errorf("without a commit it shows %d incidents, and %d inputs wait", n, lag.Inputs)
	}
	startPeer(t, url, poolTriage{}, true)
	until(t, "the follower shows what was committed", func() bool { return len(follower.Incidents()) == 3 })
}
