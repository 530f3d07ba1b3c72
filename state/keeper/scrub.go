package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

const (
	// scrubRound is the time in which every timeline is checked once. With very many incidents it
	// takes longer.
	scrubRound = 12 * time.Hour
	// scrubTogether is the number of timelines that are checked together. After a storm their
	// records wait in large links, and each link is read once for all of them.
	scrubTogether = 64
	// scrubEntries bounds the entries that one read returns, unless one timeline has more.
	scrubEntries = 5000
	// scrubLeast and scrubMost bound the time between two such checks.
	scrubLeast, scrubMost = 2 * time.Second, 10 * time.Minute
)

// scrub checks the timelines of all incidents in turn until the context ends. The sum of a
// partition's records has no timelines, and a NATS server with a damaged file drops messages
// without an error.
func (k *Keeper) scrub(ctx context.Context) {
	known := map[state.IncidentID]int{}
	var left []state.IncidentID
	pause := scrubMost
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.cfg.Clock.After(pause):
		}
		if len(left) == 0 {
			left = k.incidentIDs()
			pause = scrubPause(len(left))
		}
		together := left[:min(len(left), scrubTogether)]
		left = left[len(together):]
		for _, l := range k.losses(ctx, together) {
			if l.entries > known[l.incident] {
				k.entriesLost.Add(uint64(l.entries - known[l.incident])) //nolint:gosec // positive
				known[l.incident] = l.entries
				k.cfg.Logger.ErrorContext(ctx, "the store has lost entries of a timeline, check its disk", "incident", l.incident,
					"entries", l.entries, "err", l.err)
			}
		}
	}
}

// scrubPause returns the time between two checks, if there are so many timelines.
func scrubPause(timelines int) time.Duration {
	checks := max(1, (timelines+scrubTogether-1)/scrubTogether)
	return min(scrubMost, max(scrubLeast, scrubRound/time.Duration(checks)))
}

// incidentIDs returns the IDs of all incidents, in the order of their opening.
func (k *Keeper) incidentIDs() (ids []state.IncidentID) {
	k.find(func(b *fold.Board) bool {
		for in := range b.EveryIncident() {
			ids = append(ids, in.ID)
		}
		return false
	})
	slices.Sort(ids) // they begin with the time
	return ids
}

// A loss is a timeline with committed entries that the store has lost.
type loss struct {
	incident state.IncidentID
	entries  int   // that are missing; 1 if the timeline cannot be read
	err      error // why it cannot be read; nil if entries are missing
}

// losses returns the losses of some timelines. It leaves out those of which it cannot know: the
// store is unavailable, or another process commits.
func (k *Keeper) losses(ctx context.Context, ids []state.IncidentID) (out []loss) {
	for _, p := range k.parts {
		out = append(out, k.lossesOf(ctx, p, p.committedEntries(ids))...)
	}
	return out
}

// lossesOf returns the losses of some of the partition's timelines, given the committed entries of
// each before the read. It reads many long ones, and those of which one cannot be read, one by one.
func (k *Keeper) lossesOf(ctx context.Context, p *partition, had map[state.IncidentID]int) (out []loss) {
	if len(had) == 0 {
		return nil
	}
	ids, sum := slices.Sorted(maps.Keys(had)), 0
	for _, n := range had {
		sum += n
	}
	oneByOne := func() (out []loss) {
		for _, id := range ids {
			out = append(out, k.lossesOf(ctx, p, map[state.IncidentID]int{id: had[id]})...)
		}
		return out
	}
	if len(ids) > 1 && sum > scrubEntries {
		return oneByOne()
	}
	entries, err := k.storedEntries(ctx, p.n, ids...)
	switch {
	case ctx.Err() != nil || errors.Is(err, state.ErrUnavailable):
		return nil
	case err != nil && len(ids) == 1:
		return []loss{{incident: ids[0], entries: 1, err: err}}
	case err != nil:
		return oneByOne()
	}
	found := map[state.IncidentID]int{}
	for _, e := range entries {
		if e.N <= had[e.Incident] { // a newer one was committed meanwhile
			found[e.Incident]++
		}
	}
	now := p.committedEntries(ids)
	for _, id := range ids {
		if found[id] < had[id] && had[id] <= now[id] { // else it is being erased
			out = append(out, loss{incident: id, entries: had[id] - found[id]})
		}
	}
	return out
}

// committedEntries returns how many timeline entries this process has committed of each incident
// that the partition has. After a failed commit, and while another process commits, it knows none.
func (p *partition) committedEntries(ids []state.IncidentID) map[state.IncidentID]int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	entries := map[state.IncidentID]int{}
	if !p.ready || !p.active {
		return entries
	}
	for _, id := range ids {
		if in := p.board.Incident(id); in != nil {
			entries[id] = in.Entries
		}
	}
	return entries
}

// EntriesLost returns how many timeline entries this process has found to be lost.
func (k *Keeper) EntriesLost() uint64 { return k.entriesLost.Load() }
