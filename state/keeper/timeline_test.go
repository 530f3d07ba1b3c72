package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream"
)

// A lossyStore has lost some timeline entries, as a server does whose files are damaged.
type lossyStore struct {
	*jetstream.Store
	lost  func(key string) bool
	lists atomic.Int64
}

func (s *lossyStore) List(ctx context.Context, partition int, prefixes ...string) ([]state.Record, error) {
	s.lists.Add(1)
	records, err := s.Store.List(ctx, partition, prefixes...)
	return slices.DeleteFunc(records, func(r state.Record) bool { return s.lost(r.Key) }), err
}

func TestLostTimelineEntriesAreReported(t *testing.T) {
	dir, clock := t.TempDir(), newHandClock()
	b := start(t, dir, clock)
	if err := b.Append(t.Context(), alert("a", "llama", clock.Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "an incident", func() bool { return len(b.Incidents()) == 1 })
	id := b.Incidents()[0].ID
	for _, verb := range []state.Verb{state.VerbAck, state.VerbFeedback, state.VerbResolve} {
		if err := b.Append(t.Context(), state.Input{Cluster: "prod", Command: &state.Command{Verb: verb, Incident: id,
			Actor: state.Actor{ID: "ana"}}}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "four entries", func() bool { in, _ := b.Incident(id); return in.Entries >= 4 })
	whole, err := b.Timeline(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.stop()

	for name, c := range map[string]struct {
		lost  func(n int) bool
		notes []int // numbers of the notes
		count int   // entries that the bot finds to be lost
	}{
		"none":                              {func(int) bool { return false }, nil, 0},
		"between":                           {func(n int) bool { return n == 2 || n == 3 }, []int{2}, 2},
		"the first and the last":            {func(n int) bool { return n == 1 || n == len(whole) }, []int{1}, 2},
		"all, as if nothing were committed": {func(int) bool { return true }, nil, len(whole)},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			lossy := &lossyStore{Store: store, lost: func(key string) bool {
				return slices.ContainsFunc(whole, func(e state.Entry) bool {
					return c.lost(e.N) && strings.HasSuffix(key, fmt.Sprintf(".%d", e.N))
				})
			}}
			b := run(t, store, newKeeper(lossy, clock))
			defer b.stop()
			until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
			entries, err := b.Timeline(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var notes []int
			for _, e := range entries {
				if strings.HasPrefix(e.Text, "The store has lost ") {
					notes = append(notes, e.N)
				}
			}
			if !slices.Equal(notes, c.notes) {
				t.Errorf("notes at %v, want %v, in %v", notes, c.notes, entries)
			}
			read := lossy.lists.Load()
			until(t, "the timeline is checked twice", func() bool { clock.advance(time.Minute); return lossy.lists.Load() > read+2 })
			if got := b.EntriesLost(); got != uint64(c.count) {
				t.Errorf("%d entries are counted as lost, want %d", got, c.count)
			}
		})
	}
}
