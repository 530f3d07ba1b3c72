package jetstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/statetest"
)

func TestPositionKeepsItsRecords(t *testing.T) {
	want := position{Position: 17, Commit: "x", inline: []state.Record{{Key: "a.1", Value: []byte("{\n}")}, {Key: "a.2"},
		{Key: "a.3", Value: []byte{}}, {Key: "a.4", Value: []byte(strings.Repeat("é", 300))}}}
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodePosition(data)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || got.inline[1].Value != nil || got.inline[2].Value == nil {
		t.Errorf("decoded %v, %v", got, err)
	}
	first := len(data) - len(want.inline[3].Value) // all before the last value
	for cut := first; cut < len(data); cut++ {
		if _, err := decodePosition(data[:cut]); err == nil {
			t.Fatalf("%d of %d bytes are decoded", cut, len(data))
		}
	}
}

// model holds what a partition's commits left.
type model struct {
	values map[string]string
	order  []string // timeline records, in the order of their first write
}

func (m *model) commit(records []state.Record) {
	for _, r := range records {
		if r.Value == nil {
			delete(m.values, r.Key)
			continue
		}
		if _, ok := m.values[r.Key]; !ok && strings.HasPrefix(r.Key, state.TimelinePrefix) {
			m.order = append(m.order, r.Key)
		}
		m.values[r.Key] = string(r.Value)
	}
}

// randomRecords returns changes of up to 20 records. A timeline record never comes back.
func randomRecords(r *rand.Rand, m *model, next *int) []state.Record {
	changes := map[string]state.Record{}
	for range 1 + r.IntN(20) {
		key := fmt.Sprintf("alert.%d", r.IntN(40))
		rec := state.Record{Key: key, Value: []byte(strings.Repeat("x", r.IntN(200)))}
		switch r.IntN(6) {
		case 0:
			rec.Value = nil
		case 1:
			*next++
			rec.Key = fmt.Sprintf("timeline.INC-%d.%d", *next%3, *next)
		case 2:
			if len(m.order) > 0 {
				if old := m.order[r.IntN(len(m.order))]; m.values[old] != "" {
					rec = state.Record{Key: old}
				}
			}
		}
		changes[rec.Key] = rec
	}
	keys := make([]string, 0, len(changes))
	for key := range changes {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	records := make([]state.Record, len(keys))
	for i, key := range keys {
		records[i] = changes[key]
	}
	return records
}

// Small commits, which wait in the position, and large ones, which write all to their places, leave
// the same records.
func TestWaitingRecordsAreRead(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s := openIn(t, dir)
		m := &model{values: map[string]string{}}
		var fence state.Fence
		next := 0
		for round := range 60 {
			s.limits = []limits{{}, {inline: 4 << 10}, {inline: 16 << 10, links: 1}, {links: 4 << 10}, {4 << 10, 16 << 10}}[r.IntN(5)]
			records := randomRecords(r, m, &next)
			var err error
			if fence, err = s.Commit(t.Context(), 0, fence, uint64(round), records); err != nil {
				t.Fatal(err)
			}
			m.commit(records)
			if round%20 == 7 {
				closeIt(t, s)
				s = openIn(t, dir)
				m.check(t, s, fence)
			}
			if seed == 0 || r.IntN(10) == 0 { // a check loads, and a load forgets what was never placed
				m.check(t, s, fence)
			}
		}
		m.check(t, s, fence)
		closeIt(t, s)
	}
}

// check compares everything that a store returns with the model.
func (m *model) check(t *testing.T, s *Store, fence state.Fence) {
	t.Helper()
	loaded, at, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil || at != fence {
		t.Fatalf("loaded at %v, want %v: %v", at, fence, err)
	}
	plain := 0
	for key := range m.values {
		if !strings.HasPrefix(key, state.TimelinePrefix) {
			plain++
		}
	}
	if len(loaded) != plain {
		t.Errorf("%d records are loaded, want %d", len(loaded), plain)
	}
	for _, v := range loaded {
		if r := v.(state.Record); m.values[r.Key] != string(r.Value) {
			t.Errorf("%s is %q, want %q", r.Key, r.Value, m.values[r.Key])
		}
	}
	for n := range 3 {
		prefix := fmt.Sprintf("timeline.INC-%d", n)
		want := slices.DeleteFunc(slices.Clone(m.order), func(key string) bool {
			_, live := m.values[key]
			return !live || !strings.HasPrefix(key, prefix+".")
		})
		list, err := s.List(t.Context(), 0, prefix)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(list))
		for i, r := range list {
			got[i] = r.Key
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s has %v, want %v", prefix, got, want)
		}
	}
	exported := map[string]string{}
	if err := s.EachRecord(t.Context(), 0, func(r state.Record) error { exported[r.Key] = string(r.Value); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(exported) != len(m.values) {
		t.Errorf("%d records are exported, want %d", len(exported), len(m.values))
	}
}

// Deleted records do not stay on disk for long: after a minute a commit writes to the places.
func TestRecordsWaitForAMinuteAtMost(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	var fence state.Fence
	commit := func(records ...state.Record) {
		t.Helper()
		var err error
		if fence, err = s.Commit(t.Context(), 0, fence, 1, records); err != nil {
			t.Fatal(err)
		}
	}
	commit(state.Record{Key: "a.1", Value: []byte("x")}) // the first one is always written to its place
	commit(state.Record{Key: "a.2", Value: []byte("x")})
	commit(state.Record{Key: "a.3", Value: []byte("x")})
	w := s.waitlists[0].Load()
	if len(w.records) != 2 || time.Since(w.since) > time.Minute {
		t.Fatalf("%d records wait since %v", len(w.records), w.since)
	}
	w.since = time.Now().Add(-inlineTime)
	commit()
	if w := s.waitlists[0].Load(); len(w.records) != 0 {
		t.Errorf("%d records still wait", len(w.records))
	}
}
