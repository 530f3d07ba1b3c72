package fold

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// A Board is what one partition remembers, in memory. Only a [Fold] changes it, and the board notes
// what was changed, so that a commit writes that and nothing more. It is not safe for concurrent
// use.
type Board struct {
	incidents map[state.IncidentID]*state.Incident
	alerts    map[state.Fingerprint]*state.AlertRecord
	held      map[state.IncidentID]map[state.Fingerprint]bool // the alerts that an incident holds itself, not those of incidents merged into it
	actions   map[state.ActionID]*state.Action
	effects   map[state.EffectID]*state.Effect
	wants     map[state.IncidentID][]state.EffectID // the effects of an incident
	evidence  map[state.IncidentID]*state.Evidence
	workers   map[string]*workerRecord // by cluster, namespace and pod
	halts     map[string]*state.Halt   // by cluster
	meta      boardMeta

	open       shelf                                // every open incident
	near       map[string]shelf                     // open incidents by what they are about
	keys       map[state.IncidentID]map[string]bool // the reverse of near
	everywhere map[string]*state.Incident           // open incidents that take the alerts of one rule wherever it fires
	onNode     map[string]map[string]bool           // worker keys by cluster and node
	due        dueHeap
	dirty      map[string]changed // records to be written, or deleted where they are gone, by key
	touched    uint64             // how often records were changed
	entries    []state.Entry      // timeline entries to be written
	erased     []string           // keys of timeline entries to be deleted
}

// boardMeta is what the partition counts.
type boardMeta struct {
	Incidents int            `json:"incidents,omitempty"` // the last short number of boards that had one count for all clusters
	Numbers   map[string]int `json:"numbers,omitempty"`   // by cluster: the last short number
	SweptAt   time.Time      `json:"swept_at,omitzero"`
}

// A workerRecord is a worker with the time it was last seen.
type workerRecord struct {
	Cluster string       `json:"cluster"`
	Worker  state.Worker `json:"worker"`
	At      time.Time    `json:"at"`
}

// NewBoard is an empty board.
func NewBoard() *Board {
	return &Board{
		incidents:  map[state.IncidentID]*state.Incident{},
		alerts:     map[state.Fingerprint]*state.AlertRecord{},
		held:       map[state.IncidentID]map[state.Fingerprint]bool{},
		actions:    map[state.ActionID]*state.Action{},
		effects:    map[state.EffectID]*state.Effect{},
		wants:      map[state.IncidentID][]state.EffectID{},
		evidence:   map[state.IncidentID]*state.Evidence{},
		workers:    map[string]*workerRecord{},
		halts:      map[string]*state.Halt{},
		near:       map[string]shelf{},
		keys:       map[state.IncidentID]map[string]bool{},
		everywhere: map[string]*state.Incident{},
		onNode:     map[string]map[string]bool{},
		dirty:      map[string]changed{},
	}
}

// The kinds of records.
const (
	kindIncident = "incident"
	kindAlert    = "alert"
	kindAction   = "action"
	kindEffect   = "effect"
	kindEvidence = "evidence"
	kindWorker   = "worker"
	kindHalt     = "halt"
	kindMeta     = "meta"
)

// recordKey is a record's key. Ids that hold bytes which a key may not are hashed; the value
// carries the id itself.
func recordKey(kind, id string) string {
	for _, r := range id {
		if !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return kind + ".x" + state.Hash(id)
		}
	}
	return kind + "." + id
}

// LoadBoard returns the board of the records that [Board.Take] gave, without those that later ones
// deleted.
func LoadBoard(records []state.Record) (*Board, error) {
	values := make([]any, 0, len(records))
	for _, r := range records {
		v, err := DecodeRecord(r)
		if err != nil {
			return nil, fmt.Errorf("reading record %s: %w", r.Key, err)
		}
		values = append(values, v)
	}
	return BoardOf(values), nil
}

// BoardOf returns the board of what DecodeRecord made of the records that a store holds.
func BoardOf(values []any) *Board {
	b := NewBoard()
	for _, v := range values {
		b.put(v)
	}
	for _, in := range slices.SortedFunc(maps.Values(b.incidents), byOpening) { // in order, so that each goes to the end of its shelves
		in.Actions = slices.DeleteFunc(in.Actions, func(id state.ActionID) bool { return b.actions[id] == nil })
		if in.Open() {
			b.indexParts(in, in)
			b.indexEverywhere(in)
		}
		b.wake(in, in.NotifyBy)
		b.wake(in, in.HoldUntil)
		b.wake(in, in.SilencedUntil)
		b.adopt(in)
	}
	for _, a := range b.actions {
		b.scheduleAction(a)
	}
	return b
}

func (b *Board) put(v any) {
	switch v := v.(type) {
	case *state.Incident:
		b.incidents[v.ID] = v
	case *state.AlertRecord:
		b.alerts[v.Alert.Fingerprint] = v
		b.hold(v)
	case *state.Action:
		b.actions[v.ID] = v
	case *state.Effect:
		b.want(v)
	case *state.Evidence:
		b.evidence[v.Incident] = v
	case *workerRecord:
		b.addWorker(v)
	case *haltRecord:
		b.halts[v.Cluster] = &v.Halt
	case *boardMeta:
		b.meta = *v
	}
}

// DecodeRecord decodes a record to what a board holds. It is a [Decoder].
func DecodeRecord(r state.Record) (any, error) {
	kind, _, _ := strings.Cut(r.Key, ".")
	switch kind {
	case kindIncident:
		return decode[state.Incident](r.Value)
	case kindAlert:
		return decode[state.AlertRecord](r.Value)
	case kindAction:
		return decodeAction(r), nil
	case kindEffect:
		return decode[state.Effect](r.Value)
	case kindEvidence:
		return decode[state.Evidence](r.Value)
	case kindWorker:
		return decode[workerRecord](r.Value)
	case kindHalt:
		return decode[haltRecord](r.Value)
	case kindMeta:
		return decode[boardMeta](r.Value)
	}
	return nil, fmt.Errorf("unknown kind %q: it was written by a newer version", kind)
}

type haltRecord struct {
	Cluster string     `json:"cluster"`
	Halt    state.Halt `json:"halt"`
}

func decode[T any](value []byte) (*T, error) {
	v := new(T)
	return v, json.Unmarshal(value, v)
}

// Changes is how many records the next Take will give.
func (b *Board) Changes() int { return len(b.dirty) + len(b.entries) + len(b.erased) }

// Take gives what was changed since the last Take as records to commit, and the timeline entries
// among them.
func (b *Board) Take() ([]state.Record, []state.Entry, error) {
	records := make([]state.Record, 0, b.Changes())
	for _, key := range slices.Sorted(maps.Keys(b.dirty)) {
		r := state.Record{Key: key}
		if v := b.lookup(b.dirty[key]); v != nil { // otherwise deleted
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, nil, fmt.Errorf("encoding record %s: %w", key, err)
			}
			r.Value = raw
		}
		records = append(records, r)
	}
	for _, key := range b.erased {
		records = append(records, state.Record{Key: key})
	}
	for _, e := range b.entries {
		raw, err := json.Marshal(e)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding timeline entry of %s: %w", e.Incident, err)
		}
		records = append(records, state.Record{Key: timelineKey(e.Incident, e.N), Value: raw})
	}
	entries := b.entries
	b.entries, b.erased = nil, nil
	clear(b.dirty)
	return records, entries, nil
}

func timelineKey(id state.IncidentID, n int) string {
	return state.TimelinePrefix + "." + string(id) + "." + strconv.Itoa(n)
}

// A changed names a record that was written or is gone.
type changed struct{ kind, id string }

// lookup is the record behind a change; nil where it is gone.
func (b *Board) lookup(c changed) any {
	switch c.kind {
	case kindIncident:
		return orNil(b.incidents[state.IncidentID(c.id)])
	case kindAlert:
		return orNil(b.alerts[state.Fingerprint(c.id)])
	case kindAction:
		return orNil(b.actions[state.ActionID(c.id)])
	case kindEffect:
		return orNil(b.effects[state.EffectID(c.id)])
	case kindEvidence:
		return orNil(b.evidence[state.IncidentID(c.id)])
	case kindWorker:
		return orNil(b.workers[c.id])
	case kindHalt:
		if h := b.halts[c.id]; h != nil {
			return haltRecord{Cluster: c.id, Halt: *h}
		}
	case kindMeta:
		return b.meta
	}
	return nil
}

func orNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// touch notes that a record was changed.
func (b *Board) touch(kind, id string) {
	b.touched++
	b.dirty[recordKey(kind, id)] = changed{kind, id}
}

// hold notes which incident holds the alert.
func (b *Board) hold(rec *state.AlertRecord) {
	if rec.Incident == "" {
		return
	}
	set := b.held[rec.Incident]
	if set == nil {
		set = map[state.Fingerprint]bool{}
		b.held[rec.Incident] = set
	}
	set[rec.Alert.Fingerprint] = true
}

// home is the incident that now stands for the given one: itself, or what it was merged into.
func (b *Board) home(id state.IncidentID) *state.Incident {
	in := b.incidents[id]
	for in != nil && in.MergedInto != "" {
		in = b.incidents[in.MergedInto]
	}
	return in
}

// A dueItem is a time at which an incident or an action has to be looked at. Items are never
// removed early: what is looked at too soon, or no longer there, is left as it is.
type dueItem struct {
	at       time.Time
	cluster  string // whose timer it is: a tick is an input like any other, and inputs have a cluster
	incident state.IncidentID
	action   state.ActionID
}

type dueHeap []dueItem

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueItem)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// wake makes sure that the incident is looked at when the time comes; a zero time asks for nothing.
func (b *Board) wake(in *state.Incident, at time.Time) {
	if !at.IsZero() {
		heap.Push(&b.due, dueItem{at: at, cluster: in.Cluster, incident: in.ID})
	}
}

func (b *Board) scheduleAction(a *state.Action) {
	in := b.incidents[a.Incident]
	if in != nil && !a.ExpiresAt.IsZero() && a.State == state.AwaitingApproval {
		heap.Push(&b.due, dueItem{at: a.ExpiresAt, cluster: in.Cluster, action: a.ID})
	}
}

// NextDue is when a tick is needed next, and the cluster whose timer it is; the time is zero when
// nothing waits.
func (b *Board) NextDue() (at time.Time, cluster string) {
	if len(b.due) == 0 {
		return time.Time{}, ""
	}
	return b.due[0].at, b.due[0].cluster
}

// Incidents are copies of all incidents on the board, in the order of their short numbers.
func (b *Board) Incidents() []state.Incident {
	out := make([]state.Incident, 0, len(b.incidents))
	for _, in := range b.incidents {
		out = append(out, in.Clone())
	}
	slices.SortFunc(out, func(x, y state.Incident) int { return cmp.Compare(x.Number, y.Number) })
	return out
}

// Due are the effects that are due, the oldest first.
func (b *Board) Due(now time.Time) []state.Effect {
	var due []state.Effect
	for _, e := range b.effects {
		if !e.Due.After(now) {
			due = append(due, *e)
		}
	}
	sortEffects(due)
	return due
}

// want adds an effect.
func (b *Board) want(e *state.Effect) {
	b.effects[e.ID] = e
	b.wants[e.Incident] = append(b.wants[e.Incident], e.ID)
}

// unwant takes an effect away.
func (b *Board) unwant(e *state.Effect) {
	delete(b.effects, e.ID)
	left := slices.DeleteFunc(b.wants[e.Incident], func(id state.EffectID) bool { return id == e.ID })
	if len(left) == 0 {
		delete(b.wants, e.Incident)
		return
	}
	b.wants[e.Incident] = left
}

// sortEffects orders effects by how long they have been wanted.
func sortEffects(effects []state.Effect) {
	slices.SortFunc(effects, func(x, y state.Effect) int {
		return cmp.Or(x.Due.Compare(y.Due), x.Since.Compare(y.Since), strings.Compare(string(x.ID), string(y.ID)))
	})
}
