package jetstream_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/statetest"
)

// Everything about an incident past retention must be gone from disk: its records and its timeline.
// A younger incident must keep all of its own.
func TestRetentionErasesOldIncidentsOnly(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, jetstream.Config{Dir: dir})
	f := &fold.Fold{Triage: statetest.Triage{}, Routing: statetest.Routing{}, Settings: state.DefaultSettings()}
	f.Settings.Retain = 24 * time.Hour
	board, now, seq := fold.NewBoard(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), uint64(0)
	part := store.Partition("prod")
	_, fence, err := store.Load(t.Context(), part, fold.DecodeRecord)
	if err != nil {
		t.Fatal(err)
	}
	jetstream.WriteToPlaces(store)
	apply := func(in state.Input) {
		t.Helper()
		seq++
		in.Seq, in.At, in.Cluster = seq, now, "prod"
		f.Apply(board, in)
		records, _, err := board.Take()
		if err != nil {
			t.Fatal(err)
		}
		if fence, err = store.Commit(t.Context(), part, fence, seq, records); err != nil {
			t.Fatal(err)
		}
	}
	// trouble opens an incident, gathers evidence for it and resolves it.
	trouble := func(pool string) state.IncidentID {
		t.Helper()
		a := state.Alert{Fingerprint: state.Fingerprint("f-" + pool), Status: state.Firing, StartsAt: now,
			Labels: map[string]string{"alertname": "A", "symptom": "oom", "severity": "warning", "namespace": "llm", "pool": pool}}
		apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
		var id state.IncidentID
		for in := range board.EveryIncident() {
			if in.Open() {
				id = in.ID
			}
		}
		apply(state.Input{Evidence: &state.Evidence{Incident: id, At: now}})
		a.Status, a.EndsAt = state.Resolved, now.Add(time.Minute)
		now = now.Add(time.Minute)
		apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
		now = now.Add(10 * time.Minute)
		apply(state.Input{})
		return id
	}
	old := trouble("old")
	now = now.Add(23 * time.Hour)
	young := trouble("young")
	before := onDisk(t, store, part, young)
	now = now.Add(2 * time.Hour) // past the old one's retention
	for range 3 {
		apply(state.Input{})
	}
	closeStore(t, store)

	store = openStore(t, jetstream.Config{Dir: dir})
	defer closeStore(t, store)
	if left := onDisk(t, store, part, old); len(left) > 0 {
		t.Errorf("of an incident past retention there still are %v", left)
	}
	after := onDisk(t, store, part, young)
	for key := range before {
		if !after[key] {
			t.Errorf("%s of an incident within retention is gone", key)
		}
	}
	if len(before) < 4 { // incident, alert, evidence and timeline
		t.Errorf("the young incident has only %v", before)
	}
}

// onDisk returns the keys of the records that name an incident.
func onDisk(t *testing.T, store *jetstream.Store, part int, id state.IncidentID) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	out := map[string]bool{}
	names := func(r state.Record) {
		if strings.Contains(r.Key+" "+string(r.Value), string(id)) && !strings.HasPrefix(r.Key, "effect.") {
			mu.Lock()
			defer mu.Unlock()
			out[r.Key] = true
		}
	}
	if _, _, err := store.Load(t.Context(), part, func(r state.Record) (any, error) {
		names(r)
		return fold.DecodeRecord(r)
	}); err != nil {
		t.Fatal(err)
	}
	entries, err := store.List(t.Context(), part, state.TimelinePrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range entries {
		names(r)
	}
	return out
}
