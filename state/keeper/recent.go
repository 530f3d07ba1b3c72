package keeper

import (
	"bytes"
	"encoding/json"
	"iter"
	"sync"

	"paramedic/internal/onepass"
	"paramedic/state"
)

// maxRecent bounds the timeline entries in memory.
const maxRecent = 50_000

// A recent holds the timelines of the newest incidents, so that a storm of messages needs no reads
// of the store. It holds a timeline whole or not at all. It is safe for concurrent use.
type recent struct {
	mu      sync.Mutex
	of      map[state.IncidentID]lines
	order   []state.IncidentID // in the order of their opening
	entries int
}

// lines holds a timeline in little memory: its entries as JSON, one a line.
type lines struct {
	n    int
	text []byte
}

func newRecent() *recent { return &recent{of: map[state.IncidentID]lines{}} }

// add adds committed entries.
func (r *recent) add(entries []state.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		have, known := r.of[e.Incident]
		if !known && e.N != 1 {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil || e.N != have.n+1 { // not whole any more: another reader wrote the missing ones
			r.drop(e.Incident)
			continue
		}
		if !known {
			r.order = append(r.order, e.Incident)
		}
		r.of[e.Incident] = lines{have.n + 1, appendLine(have.text, line)}
		r.entries++
	}
	for r.entries > maxRecent {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
}

// shortTimeline is the size, in bytes, up to which a timeline has no room for more. Most have two
// or three entries.
const shortTimeline = 2048

// appendLine returns the text with another line. Readers of the text may go on.
func appendLine(text, line []byte) []byte {
	if room := len(text) + len(line) + 1; room <= shortTimeline {
		text = append(make([]byte, 0, room), text...)
	}
	return append(append(text, line...), '\n')
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
	r.entries -= r.of[id].n
	delete(r.of, id)
}

// timeline returns the incident's entries if all of them are held.
func (r *recent) timeline(in state.Incident) ([]state.Entry, bool) {
	r.mu.Lock()
	have := r.of[in.ID]
	r.mu.Unlock()
	if have.n == 0 || have.n != in.Entries {
		return nil, false
	}
	out := make([]state.Entry, 0, have.n)
	for line := range bytes.Lines(have.text) {
		var e state.Entry
		if err := onepass.Unmarshal(line, &e); err != nil {
			return nil, false
		}
		out = append(out, e)
	}
	return out, true
}
