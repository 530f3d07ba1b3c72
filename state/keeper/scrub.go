package keeper

import (
	"context"
	"errors"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

const (
	// scrubRound is the time in which every timeline is checked once. With many incidents it takes
	// longer.
	scrubRound = 12 * time.Hour
	// scrubLeast and scrubMost bound the time between two checks. After a storm a check reads
	// megabytes: the links in which its records wait.
	scrubLeast, scrubMost = 2 * time.Second, time.Minute
)

// scrub checks the timelines of all incidents in turn until the context ends. The sum of a
// partition's records has no timelines, and a NATS server with a damaged file drops messages
// without an error.
func (k *Keeper) scrub(ctx context.Context) {
	known := map[state.IncidentID]int{}
	for ctx.Err() == nil {
		ids := k.incidentIDs()
		for i := 0; i == 0 || i < len(ids); i++ {
			select {
			case <-ctx.Done():
				return
			case <-k.cfg.Clock.After(scrubPause(len(ids))):
			}
			if len(ids) == 0 {
				break
			}
			if lost, why := k.lostEntries(ctx, ids[i]); lost > known[ids[i]] {
				k.entriesLost.Add(uint64(lost - known[ids[i]])) //nolint:gosec // positive
				known[ids[i]] = lost
				k.cfg.Logger.ErrorContext(ctx, "the store has lost entries of a timeline, check its disk", "incident", ids[i],
					"entries", lost, "err", why)
			}
		}
	}
}

// scrubPause returns the time between two checks of so many timelines.
func scrubPause(timelines int) time.Duration {
	return min(scrubMost, max(scrubLeast, scrubRound/time.Duration(max(1, timelines))))
}

// incidentIDs returns the IDs of all incidents.
func (k *Keeper) incidentIDs() (ids []state.IncidentID) {
	k.find(func(b *fold.Board) bool {
		for in := range b.EveryIncident() {
			ids = append(ids, in.ID)
		}
		return false
	})
	return ids
}

// lostEntries returns how many committed entries of a timeline are not in the store. It returns 1
// and an error if an entry is there and cannot be read, and 0 if it cannot know: the store is
// unavailable, or another process commits.
func (k *Keeper) lostEntries(ctx context.Context, id state.IncidentID) (lost int, unreadable error) {
	in, ok := k.committed(id)
	if !ok {
		return 0, nil
	}
	entries, err := k.storedTimeline(ctx, in)
	switch {
	case ctx.Err() != nil || errors.Is(err, state.ErrUnavailable):
		return 0, nil
	case err != nil:
		return 1, err
	}
	lost = in.Entries
	for _, e := range entries {
		if e.N <= in.Entries { // a newer one was committed meanwhile
			lost--
		}
	}
	if now, ok := k.committed(id); !ok || now.Entries < in.Entries {
		return 0, nil // it is being erased
	}
	return lost, nil
}

// committed returns the incident as this process has committed it. After a failed commit, and while
// another process commits, there is none.
func (k *Keeper) committed(id state.IncidentID) (out state.Incident, ok bool) {
	for _, p := range k.parts {
		p.mu.RLock()
		if in := p.board.Incident(id); in != nil && p.ready && p.active {
			out, ok = in.Clone(), true
		}
		p.mu.RUnlock()
	}
	return out, ok
}

// EntriesLost returns how many timeline entries this process has found to be lost.
func (k *Keeper) EntriesLost() uint64 { return k.entriesLost.Load() }
