package keeper

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

func TestRecentTimelineIsCompleteOrMissing(t *testing.T) {
	r := newRecent()
	r.add([]state.Entry{{Incident: "a", N: 1}, {Incident: "b", N: 5}, {Incident: "a", N: 2}})
	if got, ok := r.timeline(state.Incident{ID: "a", Entries: 2}); !ok || len(got) != 2 || got[1].N != 2 {
		t.Errorf("a has %v (%v), want both entries", got, ok)
	}
	for _, in := range []state.Incident{{ID: "a", Entries: 3}, {ID: "b", Entries: 5}, {ID: "c"}} {
		if got, ok := r.timeline(in); ok {
			t.Errorf("%s with %d entries has %v, want none", in.ID, in.Entries, got)
		}
	}
	r.add([]state.Entry{{Incident: "a", N: 4}}) // another reader wrote the third
	if _, ok := r.timeline(state.Incident{ID: "a", Entries: 2}); ok {
		t.Error("a timeline with a hole is held")
	}
}

func TestRecentTimelineKeepsEveryField(t *testing.T) {
	person := state.Actor{ID: "U1", Name: "Ana", Via: "slack", Role: state.Admin, Unverified: true, Alias: "ana"}
	want := []state.Entry{
		{Incident: "a", N: 1, At: time.Unix(5, 6).UTC(), Kind: "opened", Text: "opened by an alert", Seq: 7},
		{Incident: "a", N: 2, At: time.Unix(7, 0).UTC(), Kind: "action", Text: "denied", Actor: person, Action: "ACT-1", Seq: 8, Quiet: true},
	}
	r := newRecent()
	r.add(want)
	if got, ok := r.timeline(state.Incident{ID: "a", Entries: 2}); !ok || !slices.Equal(got, want) {
		t.Errorf("it is %+v (%v), want %+v", got, ok, want)
	}
}

func TestLongTimelineGrowsInPlace(t *testing.T) {
	const entries = 300
	r := newRecent()
	var copies int
	for n := range entries {
		before := r.of["a"].text
		r.add([]state.Entry{{Incident: "a", N: n + 1, Text: fmt.Sprint("entry ", n+1)}})
		if after := r.of["a"].text; len(before) > 0 && &before[0] != &after[0] {
			copies++
		}
	}
	got, ok := r.timeline(state.Incident{ID: "a", Entries: entries})
	if !ok || len(got) != entries || got[entries-1].Text != "entry 300" || copies > entries/4 {
		t.Errorf("%d entries (%v), copied %d times", len(got), ok, copies)
	}
}

// A rebuilt timeline may differ in its text, not in the number of its entries.
func TestRecentTimelineIsDroppedOnLoad(t *testing.T) {
	r := newRecent()
	r.add([]state.Entry{{Incident: "a", N: 1}, {Incident: "b", N: 1}})
	r.forget(slices.Values([]*state.Incident{{ID: "a"}, {ID: "c"}}))
	if _, ok := r.timeline(state.Incident{ID: "a", Entries: 1}); ok || r.entries != 1 {
		t.Errorf("a is held, %d entries", r.entries)
	}
	if _, ok := r.timeline(state.Incident{ID: "b", Entries: 1}); !ok {
		t.Error("b is not held")
	}
}

func TestRecentTimelinesAreBounded(t *testing.T) {
	r := newRecent()
	for n := range maxRecent + 10 {
		r.add([]state.Entry{{Incident: state.IncidentID(fmt.Sprint(n)), N: 1}})
	}
	if len(r.of) != maxRecent || r.entries != maxRecent {
		t.Errorf("%d timelines with %d entries are held, want %d", len(r.of), r.entries, maxRecent)
	}
	if _, ok := r.timeline(state.Incident{ID: state.IncidentID(fmt.Sprint(maxRecent + 9)), Entries: 1}); !ok {
		t.Error("the newest is not held")
	}
}
