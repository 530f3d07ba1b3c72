package jetstream

import (
	"fmt"
	"slices"
	"testing"

	"paramedic/state"
	"paramedic/state/statetest"
)

// A load that every processor takes a part of reads each record once.
func TestLargeLoadReadsEachRecordOnce(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	const each = 900
	var fence state.Fence
	var want []string
	for i := range smallLoad/each + 2 {
		var records []state.Record
		for k := range each {
			records = append(records, state.Record{Key: fmt.Sprintf("a.%d-%d", i, k), Value: []byte("{}")})
			want = append(want, records[k].Key)
		}
		var err error
		if fence, err = s.Commit(t.Context(), 0, fence, uint64(i+1), records); err != nil {
			t.Fatal(err)
		}
	}
	values, got, err := s.Load(t.Context(), 0, func(r state.Record) (any, error) { return r.Key, nil })
	if err != nil || got != fence {
		t.Fatalf("loaded at %+v, want %+v: %v", got, fence, err)
	}
	var keys []string
	for _, v := range values {
		keys = append(keys, v.(string))
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("%d records were read of %d", len(keys), len(want))
	}
	if _, err := s.Commit(t.Context(), 0, fence, 99, []state.Record{{Key: "a.0-0"}}); err != nil {
		t.Fatal(err)
	}
	if values, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || len(values) != len(want)-1 {
		t.Errorf("after a deletion %d records were read of %d: %v", len(values), len(want)-1, err)
	}
}

func TestPartsCoverTheStream(t *testing.T) {
	for _, c := range []span{{1, 1}, {5, 5 + smallLoad - 1}, {5, 5 + smallLoad}, {1, 100_001}} {
		next := c.first
		for _, p := range partsOf(c.first, c.last) {
			if p.first != next || p.last < p.first {
				t.Errorf("of %+v a part is %+v, want one from %d", c, p, next)
			}
			next = p.last + 1
		}
		if next != c.last+1 {
			t.Errorf("the parts of %+v end at %d", c, next-1)
		}
	}
}
