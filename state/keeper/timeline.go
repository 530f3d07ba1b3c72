package keeper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"paramedic/state"
)

// Timeline reads an incident's timeline, oldest first. A note is in the place of entries that the
// store has lost, unless they are the newest: those may not be committed yet.
func (k *Keeper) Timeline(ctx context.Context, id state.IncidentID) ([]state.Entry, error) {
	in, ok := k.Incident(id)
	if !ok {
		return nil, fmt.Errorf("no incident %s", id)
	}
	if entries, ok := k.recent.timeline(in); ok {
		return entries, nil
	}
	entries, err := k.storedEntries(ctx, k.cfg.Store.Partition(in.Cluster), id)
	if err != nil {
		return nil, fmt.Errorf("reading the timeline of %s: %w", id, err)
	}
	slices.SortFunc(entries, func(x, y state.Entry) int { return cmp.Compare(x.N, y.N) })
	return withLosses(entries), nil
}

// storedEntries reads the timeline entries that the store has of some incidents of a partition.
func (k *Keeper) storedEntries(ctx context.Context, partition int, ids ...state.IncidentID) ([]state.Entry, error) {
	prefixes := make([]string, len(ids))
	for i, id := range ids {
		prefixes[i] = state.TimelinePrefix + "." + string(id)
	}
	records, err := k.cfg.Store.List(ctx, partition, prefixes...)
	if err != nil {
		return nil, err
	}
	entries := make([]state.Entry, 0, len(records))
	for _, r := range records {
		var e state.Entry
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return nil, fmt.Errorf("entry %s: %w", r.Key, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// withLosses adds a note in the place of missing entries before an entry. Commits go in order, so
// these were written: a NATS server with a damaged file drops messages without an error.
func withLosses(entries []state.Entry) []state.Entry {
	var out []state.Entry
	next := 1
	for _, e := range entries {
		if lost := e.N - next; lost > 0 {
			out = append(out, state.Entry{Incident: e.Incident, N: next, At: e.At, Kind: "note", Quiet: true,
				Text: fmt.Sprintf("The store has lost %d entries of this timeline here", lost)})
		}
		out = append(out, e)
		next = e.N + 1
	}
	return out
}
