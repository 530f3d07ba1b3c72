package statetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"paramedic/state"
)

func commitsMany(t *testing.T, b Backend) {
	s := open(t, b)
	var fence state.Fence
	for round := range 2 {
		records := make([]state.Record, MaxRecords)
		for i := range records {
			records[i] = rec(fmt.Sprintf("alert.%d", i), fmt.Sprintf("%d of round %d", i, round))
		}
		fence = commit(t, s, 0, fence, uint64(round), records...)
		got, loaded := load(t, s, 0)
		if len(got) != MaxRecords || loaded != fence {
			t.Fatalf("loaded %d records at %+v, want %d at %+v", len(got), loaded, MaxRecords, fence)
		}
		for _, r := range records {
			if got[r.Key] != string(r.Value) {
				t.Fatalf("%s is %q, want %q", r.Key, got[r.Key], r.Value)
			}
		}
	}
	fence = commit(t, s, 0, fence, 7) // a position may move alone
	if _, loaded := load(t, s, 0); loaded != fence {
		t.Errorf("loaded %+v, want %+v", loaded, fence)
	}
}

func commitsNothingBad(t *testing.T, b Backend) {
	s := open(t, b)
	for _, key := range []string{"", "a..b", "a.*", "a.>", "a b", "über", ".a", "a."} {
		if _, err := s.Commit(within(t), 0, state.Fence{}, 1,
			[]state.Record{rec("good", "x"), rec(key, "x")}); err == nil {
			t.Errorf("committed a record with the key %q", key)
		}
	}
	large := make([]state.Record, 3*MaxRecords)
	for i := range large {
		large[i] = rec(fmt.Sprintf("k.%d", i), "x")
	}
	large[2*MaxRecords].Key = "not a key"
	if _, err := s.Commit(within(t), 0, state.Fence{}, 1, large); err == nil || errors.Is(err, state.ErrFenced) {
		t.Errorf("committing a bad key among %d records: %v, want a refusal", len(large), err)
	}
	if got, fence := load(t, s, 0); len(got) != 0 || fence != (state.Fence{}) {
		t.Errorf("refused commits left %v at %+v", got, fence)
	}
}

func commitsLarge(t *testing.T, b Backend) {
	s := open(t, b)
	fence := commit(t, s, 0, state.Fence{}, 1, rec("alert.0", "old"), rec("gone.0", "old"),
		rec("timeline.INC-1.0", "0"))
	large := []state.Record{{Key: "gone.0"}}
	for i := range 3 * MaxRecords {
		large = append(large, rec(fmt.Sprintf("alert.%d", i), fmt.Sprint(i)))
	}
	large = append(large, rec("empty.0", ""), rec("timeline.INC-1.1", "1"), rec("timeline.INC-1.2", "2"))
	if _, err := s.Commit(within(t), 0, state.Fence{Position: 1, Rev: fence.Rev + 5}, 2, large); !errors.Is(err,
		state.ErrFenced) {
		t.Errorf("with a stale fence: %v, want ErrFenced", err)
	}
	if got, _ := load(t, s, 0); got["alert.0"] != "old" || len(got) != 2 {
		t.Errorf("a refused commit left %d records", len(got))
	}
	fence = commit(t, s, 0, fence, 2, large...)
	got, loaded := load(t, s, 0)
	if _, there := got["empty.0"]; len(got) != 3*MaxRecords+1 || loaded != fence || !there {
		t.Fatalf("loaded %d records at %+v, want %d at %+v", len(got), loaded, 3*MaxRecords+1, fence)
	}
	for _, r := range large[1:] {
		if value, there := got[r.Key]; there && value != string(r.Value) {
			t.Fatalf("%s is %q, want %q", r.Key, value, r.Value)
		}
	}
	if list, err := s.List(within(t), 0, "timeline.INC-1"); err != nil || len(list) != 3 ||
		string(list[2].Value) != "2" {
		t.Errorf("the timeline is %v, %v", list, err)
	}
	commit(t, s, 0, fence, 3, rec("alert.0", "new"))
	if got, _ := load(t, s, 0); got["alert.0"] != "new" || len(got) != 3*MaxRecords+1 {
		t.Errorf("the next commit left %d records", len(got))
	}
}

func fencesStale(t *testing.T, b Backend) {
	s := open(t, b)
	first := commit(t, s, 0, state.Fence{}, 1, rec("incident.a", "1"))
	second := commit(t, s, 0, first, 2, rec("incident.a", "2"))
	for name, stale := range map[string]state.Fence{"none": {}, "the one before": first,
		"one that never was": {Position: 2, Rev: second.Rev + 5}} {
		_, err := s.Commit(within(t), 0, stale, 3, []state.Record{rec("incident.a", "bad"), rec("incident.b", "bad"),
			rec("timeline.INC-1.1", "bad")})
		if !errors.Is(err, state.ErrFenced) {
			t.Errorf("commit with the fence %s: %v, want ErrFenced", name, err)
		}
	}
	got, fence := load(t, s, 0)
	if len(got) != 1 || got["incident.a"] != "2" || fence != second {
		t.Errorf("fenced commits left %v at %+v", got, fence)
	}
	if left, err := s.List(within(t), 0, "timeline"); err != nil || len(left) != 0 {
		t.Errorf("fenced commits left the timeline %v, %v", left, err)
	}
}

func fencesAcrossStores(t *testing.T, b Backend) {
	if !b.Shared() {
		t.Skip("only one store may be open")
	}
	one, other := open(t, b), open(t, b)
	_, fence := load(t, one, 3)
	commit(t, other, 3, fence, 1, rec("incident.a", "other's"))
	if _, err := one.Commit(within(t), 3, fence, 1, []state.Record{rec("incident.a", "one's")}); !errors.Is(err,
		state.ErrFenced) {
		t.Errorf("the overtaken reader's commit: %v, want ErrFenced", err)
	}
	got, fence := load(t, one, 3)
	if got["incident.a"] != "other's" {
		t.Errorf("after the overtaken commit the record is %q", got["incident.a"])
	}
	commit(t, one, 3, fence, 2, rec("incident.a", "one's"))
}

func deletes(t *testing.T, b Backend) {
	s := open(t, b)
	fence := commit(t, s, 0, state.Fence{}, 1, rec("incident.a", "a"), rec("incident.b", "b"),
		rec("timeline.INC-1.1", "x"), rec("timeline.INC-1.2", "y"))
	gone := func(key string) state.Record { return state.Record{Key: key} }
	fence = commit(t, s, 0, fence, 2, gone("incident.a"), gone("timeline.INC-1.1"), gone("never.was"))
	if got, _ := load(t, s, 0); len(got) != 1 || got["incident.b"] != "b" {
		t.Errorf("after a deletion: %v", got)
	}
	list, err := s.List(within(t), 0, "timeline.INC-1")
	if err != nil || len(list) != 1 || list[0].Key != "timeline.INC-1.2" {
		t.Errorf("after a deletion the timeline is %v, %v", list, err)
	}
	commit(t, s, 0, fence, 3, rec("incident.a", "back"), rec("timeline.INC-1.1", "back"))
	if got, _ := load(t, s, 0); got["incident.a"] != "back" {
		t.Errorf("a record that came back: %v", got)
	}
	list, err = s.List(within(t), 0, "timeline.INC-1")
	back := slices.ContainsFunc(list, func(r state.Record) bool { return string(r.Value) == "back" })
	if err != nil || len(list) != 2 || !back {
		t.Errorf("a timeline record that came back: %v, %v", list, err)
	}
}

func replaces(t *testing.T, b Backend) {
	s := open(t, b)
	first := commit(t, s, 0, state.Fence{}, 1, rec("incident.a", "1"), rec("incident.b", "1"),
		rec("timeline.INC-1.1", "x"), rec("timeline.INC-2.1", "x"))
	commit(t, s, 1, state.Fence{}, 1, rec("incident.a", "another partition's"))
	if _, err := s.Replace(within(t), 0, state.Fence{Position: 1, Rev: first.Rev + 9}, 2, nil); !errors.Is(err,
		state.ErrFenced) {
		t.Errorf("replacing with a stale fence: %v, want ErrFenced", err)
	}
	records := []state.Record{rec("timeline.INC-1.1", "new")}
	for i := range 2 * MaxRecords {
		records = append(records, rec(fmt.Sprintf("alert.%d", i), "new"))
	}
	next, err := s.Replace(within(t), 0, first, 7, records)
	if err != nil || next.Position != 7 {
		t.Fatalf("replaced: %+v, %v", next, err)
	}
	got, fence := load(t, s, 0)
	if len(got) != 2*MaxRecords || fence != next {
		t.Errorf("after a replacement there are %d records at %+v, want %d at %+v", len(got), fence, 2*MaxRecords, next)
	}
	if list, err := s.List(within(t), 0, "timeline"); err != nil || len(list) != 1 || string(list[0].Value) != "new" {
		t.Errorf("after a replacement the timelines are %v, %v", list, err)
	}
	if got, _ := load(t, s, 1); got["incident.a"] != "another partition's" {
		t.Errorf("another partition has %v", got)
	}
	commit(t, s, 0, next, 8, rec("incident.c", "1"))
	if _, err := s.Commit(within(t), 0, first, 9, nil); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a commit with the fence of before: %v, want ErrFenced", err)
	}
}

func listsTimelines(t *testing.T, b Backend) {
	s := open(t, b)
	var fence state.Fence
	for i := range 12 { // 10 sorts before 2 as text
		fence = commit(t, s, 0, fence, uint64(i), rec(fmt.Sprintf("timeline.INC-1.%d", i), fmt.Sprint(i)),
			rec(fmt.Sprintf("timeline.INC-12.%d", i), "another's"), rec("incident.INC-1", fmt.Sprint(i)))
	}
	if got, _ := load(t, s, 0); len(got) != 1 || got["incident.INC-1"] != "11" {
		t.Errorf("loaded %v, want the incident and no timeline", got)
	}
	list, err := s.List(within(t), 0, "timeline.INC-1")
	if err != nil || len(list) != 12 {
		t.Fatalf("listed %v, %v", list, err)
	}
	for i, r := range list {
		if r.Key != fmt.Sprintf("timeline.INC-1.%d", i) || string(r.Value) != fmt.Sprint(i) {
			t.Errorf("entry %d is %s %q", i, r.Key, r.Value)
		}
	}
	if list, err := s.List(within(t), 0, "timeline"); err != nil || len(list) != 24 {
		t.Errorf("listed %d timeline records, %v; want 24", len(list), err)
	}
	if list, err := s.List(within(t), 0, "incident.INC-1"); err != nil || len(list) != 1 {
		t.Errorf("a whole key lists %v, %v", list, err)
	}
	list, err = s.List(within(t), 0, "timeline.INC-12", "timeline.INC-9", "timeline.INC-1", "timeline.INC-12.3")
	if err != nil || len(list) != 24 || list[0].Key != "timeline.INC-1.0" || list[1].Key != "timeline.INC-12.0" ||
		list[22].Key != "timeline.INC-1.11" || list[23].Key != "timeline.INC-12.11" {
		t.Errorf("four prefixes list %d records, %v; want 24, each once in the order of its first write: %v", len(list), err, list)
	}
	if list, err := s.List(within(t), 0); err != nil || len(list) != 0 {
		t.Errorf("no prefix lists %d records, %v", len(list), err)
	}
	if list, err := s.List(within(t), 0, "timeline.INC-9"); err != nil || len(list) != 0 {
		t.Errorf("an incident that is not there lists %v, %v", list, err)
	}
}

func keepsPlace(t *testing.T, b Backend) {
	s := open(t, b)
	fence := commit(t, s, 0, state.Fence{}, 1, rec("timeline.INC-1.1", "a"), rec("timeline.INC-1.2", "b"))
	fence = commit(t, s, 0, fence, 2, rec("timeline.INC-1.1", "a again"), rec("timeline.INC-1.3", "c"))
	commit(t, s, 0, fence, 3, rec("timeline.INC-1.1", "a a third time"))
	list, err := s.List(within(t), 0, "timeline.INC-1")
	if err != nil || len(list) != 3 || list[0].Key != "timeline.INC-1.1" || string(list[0].Value) != "a a third time" ||
		list[2].Key != "timeline.INC-1.3" {
		t.Errorf("listed %v, %v", list, err)
	}
}

func separatesPartitions(t *testing.T, b Backend) {
	s := open(t, b)
	if s.Partitions() < 2 {
		t.Skip("the store has one partition")
	}
	zero := commit(t, s, 0, state.Fence{}, 5, rec("incident.a", "zero"), rec("timeline.INC-1.1", "zero"))
	one := commit(t, s, 1, state.Fence{}, 6, rec("incident.a", "one"))
	for p, want := range map[int]struct {
		value string
		fence state.Fence
	}{0: {"zero", zero}, 1: {"one", one}} {
		if got, fence := load(t, s, p); len(got) != 1 || got["incident.a"] != want.value || fence != want.fence {
			t.Errorf("partition %d has %v at %+v", p, got, fence)
		}
	}
	if list, err := s.List(within(t), 1, "timeline.INC-1"); err != nil || len(list) != 0 {
		t.Errorf("partition 1 lists partition 0's timeline: %v, %v", list, err)
	}
}

func closedIsUnavailable(t *testing.T, b Backend) {
	s := b.Open(t)
	r, err := s.Inputs(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() { _, err := r.Next(t.Context()); waiting <- err }()
	shut(t, s)
	unavailable(t, "a reader that waited", <-waiting)
	ctx := within(t)
	unavailable(t, "append", s.Append(ctx, input("prod", "a")))
	_, err = s.Commit(ctx, 0, state.Fence{}, 1, nil)
	unavailable(t, "commit", err)
	_, _, err = s.Load(ctx, 0, Raw)
	unavailable(t, "load", err)
	_, err = s.Inputs(ctx, 0, 0)
	unavailable(t, "inputs", err)
	_, err = s.List(ctx, 0, "timeline")
	unavailable(t, "list", err)
	unavailable(t, "ready", s.Ready(ctx))
}
