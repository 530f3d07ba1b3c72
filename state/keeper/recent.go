package keeper

import (
	"iter"
	"sync"
	"time"

	"paramedic/state"
)

// maxRecent bounds the timeline entries in memory.
const maxRecent = 50_000

// A recent holds the timelines of the newest incidents, so that a storm of messages needs no reads
// of the store. It holds a timeline whole or not at all. It is safe for concurrent use.
type recent struct {
	mu      sync.Mutex
	of      map[state.IncidentID][]line // entry n at n-1
	order   []state.IncidentID          // in the order of their opening
	entries int
}

// A line holds an entry in half its memory: most have no actor.
type line struct {
	at         time.Time
	kind, text string
	actor      *state.Actor
	action     state.ActionID
	seq        uint64
	quiet      bool
}

func lineOf(e *state.Entry) line {
	l := line{at: e.At, kind: e.Kind, text: e.Text, action: e.Action, seq: e.Seq, quiet: e.Quiet}
	if actor := e.Actor; actor != (state.Actor{}) {
		l.actor = &actor
	}
	return l
}

func (l *line) entry(of state.IncidentID, n int) state.Entry {
	e := state.Entry{Incident: of, N: n, At: l.at, Kind: l.kind, Text: l.text, Action: l.action, Seq: l.seq, Quiet: l.quiet}
	if l.actor != nil {
		e.Actor = *l.actor
	}
	return e
}

func newRecent() *recent { return &recent{of: map[state.IncidentID][]line{}} }

// add adds committed entries.
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
			r.of[e.Incident] = append(have, lineOf(&e))
			r.entries++
		case known: // another reader wrote the missing ones
			r.drop(e.Incident)
		}
	}
	for r.entries > maxRecent {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
}

// forget drops the timelines of incidents that were loaded again. Another reader or a rebuild may
// have written other entries.
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

// timeline returns the incident's entries if all of them are held.
func (r *recent) timeline(in state.Incident) ([]state.Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.of[in.ID]
	if len(have) == 0 || len(have) != in.Entries {
		return nil, false
	}
	out := make([]state.Entry, len(have))
	for i := range have {
		out[i] = have[i].entry(in.ID, i+1)
	}
	return out, true
}
