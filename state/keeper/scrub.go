package keeper

import (
	"context"
	"errors"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// scrubRound is the time in which every timeline is checked once, or more if there is less than
// scrubPause between two. After a storm a check reads megabytes: those that wait in links.
const (
	scrubRound = 12 * time.Hour
	scrubPause = 2 * time.Second
)

// scrub checks the timelines of all incidents in turn until the context ends, if this process is
// active. The sum of a partition's records has no timelines, and a NATS server with a damaged file
// drops messages without an error.
func (k *Keeper) scrub(ctx context.Context) {
	known := map[state.IncidentID]int{}
	for ctx.Err() == nil {
		ids := k.incidentIDs()
		pause := max(scrubPause, scrubRound/time.Duration(max(1, len(ids))))
		for i := 0; i == 0 || i < len(ids); i++ {
			select {
			case <-ctx.Done():
				return
			case <-k.cfg.Clock.After(pause):
			}
			if active, _ := k.lease(); !active || len(ids) == 0 {
				break
			}
			if lost := k.lostEntries(ctx, ids[i]); lost > known[ids[i]] {
				k.entriesLost.Add(uint64(lost - known[ids[i]])) //nolint:gosec // positive
				known[ids[i]] = lost
				k.cfg.Logger.ErrorContext(ctx, "the store has lost entries of a timeline, check its disk", "incident", ids[i],
					"entries", lost)
			}
		}
	}
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

// lostEntries returns how many entries of a timeline are not in the store. It returns 0 if the
// store cannot be read now.
func (k *Keeper) lostEntries(ctx context.Context, id state.IncidentID) int {
	in, ok := k.Incident(id)
	if !ok {
		return 0
	}
	entries, err := k.storedTimeline(ctx, in)
	if err != nil {
		if !errors.Is(err, state.ErrUnavailable) && ctx.Err() == nil {
			k.cfg.Logger.WarnContext(ctx, "a timeline cannot be checked", "incident", id, "err", err)
		}
		return 0
	}
	lost := in.Entries
	for _, e := range entries {
		if e.N <= in.Entries { // a newer one was committed meanwhile
			lost--
		}
	}
	if now, ok := k.Incident(id); !ok || now.Entries < in.Entries {
		return 0 // it is being erased
	}
	return lost
}

// EntriesLost returns how many timeline entries this process has found to be lost.
func (k *Keeper) EntriesLost() uint64 { return k.entriesLost.Load() }
