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
// store has lost.
func (k *Keeper) Timeline(ctx context.Context, id state.IncidentID) ([]state.Entry, error) {
	in, ok := k.Incident(id)
	if !ok {
		return nil, fmt.Errorf("no incident %s", id)
	}
	if entries, ok := k.recent.timeline(in); ok {
		return entries, nil
	}
	records, err := k.cfg.Store.List(ctx, k.cfg.Store.Partition(in.Cluster), state.TimelinePrefix+"."+string(id))
	if err != nil {
		return nil, fmt.Errorf("reading the timeline of %s: %w", id, err)
	}
	entries := make([]state.Entry, 0, len(records))
	for _, r := range records {
		var e state.Entry
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return nil, fmt.Errorf("reading timeline entry %s: %w", r.Key, err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(x, y state.Entry) int { return cmp.Compare(x.N, y.N) })
	return withLosses(in, entries), nil
}

// withLosses adds a note in the place of entries that the incident had and the list lacks. A NATS
// server with a damaged file drops messages without an error.
func withLosses(in state.Incident, entries []state.Entry) []state.Entry {
	var out []state.Entry
	next, at := 1, in.OpenedAt
	upTo := func(n int) {
		if next < n {
			out = append(out, state.Entry{Incident: in.ID, N: next, At: at, Kind: "note", Quiet: true,
				Text: fmt.Sprintf("The store has lost %d of the %d entries of this timeline here", n-next, in.Entries)})
		}
	}
	for _, e := range entries {
		upTo(e.N)
		out = append(out, e)
		next, at = e.N+1, e.At
	}
	upTo(in.Entries + 1)
	return out
}
