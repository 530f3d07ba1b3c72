package ledger_test

import (
	"slices"
	"testing"

	"paramedic/state"
	"paramedic/state/jetstream/ledger"
	"paramedic/state/jetstream/wire"
)

func record(key, value string) state.Record { return state.Record{Key: key, Value: []byte(value)} }

// commit commits records, and writes some to their places.
func commit(t *testing.T, b *ledger.Book, was, rev uint64, placed []state.Record, records ...state.Record) {
	t.Helper()
	sum, changes, known := b.SumAfter(0, was, records)
	if !known {
		t.Fatalf("the sum of revision %d is not known", was)
	}
	b.Commit(0, was, rev, sum, changes, placed)
}

// The sum depends on the live records only, not on how they came to be.
func TestSumIsThatOfLiveRecords(t *testing.T) {
	b := ledger.NewBook(1)
	b.Set(0, b.New(1, 0, false))
	commit(t, b, 1, 2, nil, record("a.1", "old"), record("a.2", "x"), record("timeline.i.1", "no part of the sum"))
	commit(t, b, 2, 3, nil, record("a.1", "new"), state.Record{Key: "a.2"})
	want := b.New(3, 1, false)
	want.Add("a.1", record("a.1", "new").Hash())
	if got := b.Sum(0); got != want.Sum {
		t.Errorf("the sum is %+v, want %+v", got, want.Sum)
	}
	if _, _, known := b.SumAfter(0, 2, nil); known {
		t.Error("the ledger knows the sum of an old revision")
	}
}

// Only a record that may be at its place needs a tombstone, and is named by a live set.
func TestOnlyPlacedRecordsNeedTombstones(t *testing.T) {
	b := ledger.NewBook(1)
	loaded := b.New(1, 2, false)
	loaded.Add("a.loaded", 1)
	loaded.AddDeleted("a.deleted")
	b.Set(0, loaded)
	placed := record("a.placed", "x")
	commit(t, b, 1, 2, []state.Record{placed}, placed, record("a.waits", "x"))
	var deletions []state.Record
	for _, key := range []string{"a.loaded", "a.deleted", "a.placed", "a.waits", "timeline.i.1"} {
		deletions = append(deletions, state.Record{Key: key})
	}
	var left []string
	for _, r := range b.DropNeedlessDeletions(0, 2, deletions) {
		left = append(left, r.Key)
	}
	if want := []string{"a.loaded", "a.deleted", "a.placed", "timeline.i.1"}; !slices.Equal(left, want) {
		t.Errorf("deleted are %v, want %v", left, want)
	}
	commit(t, b, 2, 3, nil, state.Record{Key: "a.loaded"})
	if rev, names, gone := b.Live(0); rev != 3 || gone != 1 || !slices.Equal(names, []uint64{wire.Name("a.placed")}) {
		t.Errorf("the live set of revision %d has %v, and %d are gone", rev, names, gone)
	}
	if n := len(b.DropNeedlessDeletions(0, 2, deletions)); n != len(deletions) {
		t.Errorf("of an old revision %d of %d deletions are left", n, len(deletions))
	}
}

// Where other processes write, every record counts as placed.
func TestSharedPlacesNeedAllTombstones(t *testing.T) {
	b := ledger.NewBook(1)
	b.Set(0, b.New(1, 0, true))
	commit(t, b, 1, 2, nil, record("a.waits", "x"))
	if n := len(b.DropNeedlessDeletions(0, 2, []state.Record{{Key: "a.waits"}})); n != 1 {
		t.Errorf("%d deletions are left", n)
	}
}
