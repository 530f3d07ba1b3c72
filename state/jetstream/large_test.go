package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"paramedic/state"
	"paramedic/state/statetest"
)

// leaveDraft leaves a partition like a bot that dies between the two halves of a large commit.
func leaveDraft(t *testing.T, dir string) {
	t.Helper()
	s := openIn(t, dir)
	defer closeIt(t, s)
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.0", Value: []byte("old")},
		{Key: "gone.0", Value: []byte("old")}})
	if err != nil {
		t.Fatal(err)
	}
	records := []state.Record{{Key: "gone.0"}}
	for i := range 2*MaxRecords + 500 {
		records = append(records, state.Record{Key: fmt.Sprintf("a.%d", i), Value: []byte("new")})
	}
	sum, _, _ := s.sums.SumAfter(0, fence.Rev, records)
	pos := position{Position: 2, Sum: &sum, Draft: &draft{ID: "x", Records: uint64(len(records))}}
	if _, err := s.writeDraft(t.Context(), 0, fence, pos, records); err != nil {
		t.Fatal(err)
	}
}

// A large commit is whole although the bot dies in the middle.
func TestLargeCommitOutlivesItsBot(t *testing.T) {
	dir := t.TempDir()
	leaveDraft(t, dir)
	s := openIn(t, dir)
	defer closeIt(t, s)
	for range 2 {
		values, fence, err := s.Load(t.Context(), 0, statetest.Raw)
		if err != nil || len(values) != 2*MaxRecords+500 || fence.Position != 2 {
			t.Fatalf("loaded %d records at %+v, %v", len(values), fence, err)
		}
		for _, v := range values {
			if r := v.(state.Record); string(r.Value) != "new" {
				t.Fatalf("%s is %q", r.Key, r.Value)
			}
		}
	}
	if last, err := s.lastOf(t.Context(), []string{draftSubject(0, ">")}); err != nil || last != 0 {
		t.Errorf("the draft ends at %d, %v", last, err)
	}
}

// A large commit whose records are lost before they are at their places is damage.
func TestLostDraftIsDamage(t *testing.T) {
	dir := t.TempDir()
	leaveDraft(t, dir)
	s := openIn(t, dir)
	defer closeIt(t, s)
	if err := s.purge(t.Context(), draftSubject(0, "x.7")); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Load(t.Context(), 0, statetest.Raw)
	var damage *state.DamagedError
	if !errors.As(err, &damage) || !strings.Contains(damage.Wrong, "1 of the 2499 records of its newest commit are missing") {
		t.Errorf("load: %v", err)
	}
}
