package keeper

import (
	"iter"
	"slices"
	"sync"

	"paramedic/state"
)

// mostRecent bounds how many timeline entries are held in memory.
const mostRecent = 50_000

// A recent holds the timelines of the incidents that were opened last, so that showing them needs
// no reading of the store: a message is composed for every incident of a storm. It holds a timeline
// whole or not at all, and is safe for concurrent use.
type recent struct {
	mu      sync.Mutex
	of      map[state.IncidentID][]state.Entry
	order   []state.IncidentID // as they were opened
	entries int
}

func newRecent() *recent { return &recent{of: map[state.IncidentID][]state.Entry{}} }

// add takes over committed entries.
func (r *recent) add(entries []state.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		have, known := r.of[e.Incident]
		switch {
		case e.N == len(have)+1 && (known || e.N == 1):
			if !known {
				r.order = append(r.order, e.Incident)
			}
			r.of[e.Incident] = append(have, e)
			r.entries++
		case known: // another reader wrote what is missing here
			r.drop(e.Incident)
		}
	}
	for r.entries > mostRecent {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
}

// forget drops the timelines of incidents that were read anew: another reader, or a rebuilding, may
// have written others.
func (r *recent) forget(incidents iter.Seq[*state.Incident]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for in := range incidents {
		r.drop(in.ID)
	}
}

func (r *recent) drop(id state.IncidentID) {
	r.entries -= len(r.of[id])
	delete(r.of, id)
}

// timeline returns the incident's entries where all of them are held.
func (r *recent) timeline(in state.Incident) ([]state.Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.of[in.ID]
	if len(have) == 0 || len(have) != in.Entries {
		return nil, false
	}
	return slices.Clone(have), true
}
