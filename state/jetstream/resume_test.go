package jetstream_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// A process that has made the same changes as the active one continues at its commit. One with
// other records, or at another position, must load.
func TestResumeNeedsTheCommittedRecords(t *testing.T) {
	url := natstest.Start(t)
	open := func() *jetstream.Store {
		s := openStore(t, jetstream.Config{URL: url, Replicas: 1, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { closeStore(t, s) })
		return s
	}
	active, follower := open(), open()
	commit := func(s *jetstream.Store, f state.Fence, to uint64, records ...state.Record) state.Fence {
		next, err := s.Commit(t.Context(), 0, f, to, records)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	load := func(s *jetstream.Store) ([]any, state.Fence) {
		values, f, err := s.Load(t.Context(), 0, statetest.Raw)
		if err != nil {
			t.Fatal(err)
		}
		return values, f
	}
	a, b, c := state.Record{Key: "in.a", Value: []byte("1")}, state.Record{Key: "in.b", Value: []byte("2")},
		state.Record{Key: "in.c", Value: []byte("3")}
	_, first := load(active)
	at := commit(active, first, 1, a, b)
	_, mine := load(follower)
	at = commit(active, at, 2, c, state.Record{Key: "in.a"})
	for _, copied := range []struct { // each goes on from the one before
		name     string
		position uint64
		records  []state.Record
	}{
		{"before the commit", 1, nil},
		{"without its records", 2, nil},
		{"with another value", 2, []state.Record{c, {Key: "in.a", Value: []byte("4")}}},
		{"at a later position", 3, []state.Record{{Key: "in.a"}}},
		{"with one record more", 2, []state.Record{{Key: "in.d", Value: []byte("5")}}},
	} {
		follower.Follow(0, mine, copied.records)
		if _, err := follower.Resume(t.Context(), 0, state.Fence{Position: copied.position, Rev: mine.Rev}); !errors.Is(err, state.ErrFenced) {
			t.Errorf("a copy %s: %v", copied.name, err)
		}
	}
	_, mine = load(follower)
	at = commit(active, at, 4, state.Record{Key: "in.b", Value: []byte("6")})
	follower.Follow(0, mine, []state.Record{{Key: "in.b", Value: []byte("6")}, {Key: "timeline.a.1", Value: []byte("7")}})
	resumed, err := follower.Resume(t.Context(), 0, state.Fence{Position: 4, Rev: mine.Rev})
	if err != nil || resumed != at {
		t.Fatalf("resumed at %v, %v; the commit is %v", resumed, err, at)
	}
	commit(follower, resumed, 5, a)
	if _, err := active.Commit(t.Context(), 0, at, 5, nil); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a commit of the former process: %v", err)
	}
	if values, _ := load(open()); len(values) != 3 { // Load compares the stored sum
		t.Errorf("%d records, want a, b and c", len(values))
	}
}
