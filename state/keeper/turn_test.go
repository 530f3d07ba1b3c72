package keeper_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
	"paramedic/state/keeper/agenda"
	"paramedic/state/statetest"
)

// A handLease is held if the test says so.
type handLease struct {
	mu      sync.Mutex
	is      bool
	changed chan struct{}
}

func newHandLease(held bool) *handLease { return &handLease{is: held, changed: make(chan struct{})} }

func (l *handLease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

func (l *handLease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *handLease) set(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.is, l.changed = held, make(chan struct{})
}

// runWith runs a keeper with a lease. It reads and writes a store through another one, which may
// hold something back.
func runWith(t *testing.T, store *jetstream.Store, through state.Store, l state.Lease) *bot {
	t.Helper()
	return run(t, store, keeper.New(keeper.Config{Store: through, Clock: newHandClock(), Logger: slog.New(slog.DiscardHandler), Lease: l,
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
}

func openIn(t *testing.T, dir string) *jetstream.Store {
	t.Helper()
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// due takes every effect that is due.
func due(b *bot) []agenda.Task {
	tasks, _ := b.Take(newHandClock().Now().AddDate(0, 0, 1), func(agenda.Lane) int { return math.MaxInt })
	return tasks
}

// A process without the lease neither commits nor delivers. With the lease it does both, and what
// was wanted before counts as perhaps delivered.
func TestFollowerCommitsAndDeliversNothing(t *testing.T) {
	store, l := openIn(t, t.TempDir()), newHandLease(false)
	watched := &watchedStore{Store: store}
	b := runWith(t, store, watched, l)
	if err := b.Append(t.Context(), alert("a", "pool", newHandClock().Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "the input waits for a commit", func() bool { return watched.looks.Load() > 1 })
	committed := func() uint64 {
		_, fence, err := store.Load(t.Context(), store.Partition("prod"), statetest.Raw)
		if err != nil {
			t.Fatal(err)
		}
		return fence.Position
	}
	if tasks := due(b); len(tasks) > 0 || committed() > 0 || !b.Since("prod").IsZero() {
		t.Errorf("a follower delivers %v, has committed %d, and delivers since %v", tasks, committed(), b.Since("prod"))
	}
	l.set(true)
	until(t, "the active process commits", func() bool { return committed() > 0 })
	until(t, "and delivers", func() bool { return len(due(b)) > 0 })
	if b.Since("prod").IsZero() {
		t.Error("what was wanted before the takeover counts as new")
	}
	l.set(false)
	until(t, "the former active process hands out nothing", func() bool {
		_, n := b.OldestDue()
		return n == 0 && b.Ready(t.Context()) == nil
	})
}

// A commit that the former holder has on its way is refused after a takeover.
func TestTakeoverRefusesOlderCommits(t *testing.T) {
	store, l := openIn(t, t.TempDir()), newHandLease(false)
	p := store.Partition("prod")
	_, old, err := store.Load(t.Context(), p, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	b := runWith(t, store, store, l)
	l.set(true)
	until(t, "the takeover", func() bool { return !b.Since("prod").IsZero() })
	if _, err := store.Commit(t.Context(), p, old, 0, []state.Record{{Key: "a.b", Value: []byte("{}")}}); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a commit of the former holder: %v", err)
	}
}

// A slowStore holds back the inputs of one partition.
type slowStore struct {
	*jetstream.Store
	partition    int
	asked, allow chan struct{}
}

type slowReader struct {
	state.InputReader
	s *slowStore
}

func (s *slowStore) Inputs(ctx context.Context, partition int, after uint64) (state.InputReader, error) {
	r, err := s.Store.Inputs(ctx, partition, after)
	if partition == s.partition && err == nil {
		r = slowReader{r, s}
	}
	return r, err
}

func (r slowReader) Next(ctx context.Context) (state.Input, error) {
	select {
	case r.s.asked <- struct{}{}:
	default:
	}
	select {
	case <-r.s.allow:
		return r.InputReader.Next(ctx)
	case <-ctx.Done():
		return state.Input{}, ctx.Err()
	}
}

// The former holder delivered effects, and its outcomes are in the log only. The new one applies
// them before it delivers.
func TestTakeoverReadsTheLogFirst(t *testing.T) {
	dir, clock := t.TempDir(), newHandClock()
	before := start(t, dir, clock)
	if err := before.Append(t.Context(), alert("a", "pool", clock.Now())); err != nil {
		t.Fatal(err)
	}
	var tasks []agenda.Task
	until(t, "effects are due", func() bool { tasks = append(tasks, due(before)...); return len(tasks) > 0 })
	before.stop()
	store := openIn(t, dir)
	for _, task := range tasks {
		e := task.Effect
		if err := store.Append(t.Context(), state.Input{At: clock.Now(), Cluster: "prod",
			Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}}); err != nil {
			t.Fatal(err)
		}
	}
	slow := &slowStore{Store: store, partition: store.Partition("prod"), asked: make(chan struct{}, 1), allow: make(chan struct{})}
	b := runWith(t, store, slow, newHandLease(true))
	<-slow.asked
	again := due(b)
	close(slow.allow)
	until(t, "the log is read", func() bool { return b.Ready(t.Context()) == nil })
	for _, task := range append(again, due(b)...) {
		for _, was := range tasks {
			if task.Effect.ID == was.Effect.ID && task.Effect.Turn == was.Effect.Turn {
				t.Errorf("%s is delivered again", was.Effect.ID)
			}
		}
	}
}

// A deafStore loses its connection: it reports nothing about the log.
type deafStore struct {
	*jetstream.Store
	deaf atomic.Bool
}

func (s *deafStore) Received(ctx context.Context) (bool, error) {
	if s.deaf.Load() {
		return false, state.ErrUnavailable
	}
	return s.Store.Received(ctx)
}

// A follower's copy is as old as the last look that found every input applied. The active process
// has no copy.
func TestReplicaReportsTheAgeOfItsCopy(t *testing.T) {
	url := natstest.Start(t)
	first := startPeer(t, url, poolTriage{}, true)
	store, l, clock := openAt(t, url), newHandLease(false), newHandClock()
	through := &deafStore{Store: store}
	b := run(t, store, keeper.New(keeper.Config{Store: through, Clock: clock, Logger: slog.New(slog.DiscardHandler), Lease: l,
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	complete := func() bool {
		r := b.Replica()
		if r.AsOf.Equal(clock.Now()) {
			return !r.Active && r.Inputs == 0
		}
		clock.advance(time.Second) // to the next look
		return false
	}
	until(t, "the empty copy is complete", complete)
	first.send(t, 0, 1)
	until(t, "the copy with the input is complete", func() bool { return len(b.Incidents()) == 1 && complete() })
	through.deaf.Store(true)
	was := b.Replica().AsOf
	clock.advance(time.Minute)
	first.stop()
	l.set(true)
	until(t, "it is active", func() bool { return b.Replica().Active })
	if at := b.TookOver(); !at.Equal(clock.Now()) {
		t.Errorf("it took over at %v", at)
	}
	if r := b.Replica(); !r.AsOf.IsZero() || !r.Since.Equal(clock.Now()) || clock.Now().Sub(was) < time.Minute {
		t.Errorf("active since %v, with a copy of %v", r.Since, r.AsOf)
	}
	l.set(false)
	until(t, "it follows again", func() bool { return !b.Replica().Active })
	if r := b.Replica(); !r.AsOf.IsZero() || !b.TookOver().IsZero() {
		t.Errorf("without the log its copy counts as complete at %v", r.AsOf)
	}
}
