package keeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

const (
	// scrubRound is the time in which every timeline is checked once. With very many incidents it
	// takes longer.
	scrubRound = 12 * time.Hour
	// scrubTogether is the number of timelines that are checked one after the other. After a storm
	// each check leaves megabytes of garbage: it reads the links in which the records wait. Fewer
	// together would wake an idle process more often.
	scrubTogether = 8
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
		for _, id := range together {
			if lost, why := k.lostEntries(ctx, id); lost > known[id] {
				k.entriesLost.Add(uint64(lost - known[id])) //nolint:gosec // positive
				known[id] = lost
				k.cfg.Logger.ErrorContext(ctx, "the store has lost entries of a timeline, check its disk", "incident", id,
					"entries", lost, "err", why)
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
