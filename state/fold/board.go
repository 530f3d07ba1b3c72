package fold

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"golang.org/x/sync/errgroup"

	"paramedic/state"
	"paramedic/state/fold/index"
	"paramedic/state/fold/packed"
)

// A Board holds the state of one partition in memory. Only a [Fold] changes it. The board notes its
// changes, so that a commit writes only those. It is not safe for concurrent use.
type Board struct {
	incidents         map[state.IncidentID]*state.Incident
	alerts            *packed.Alerts // an incident does not have those of incidents merged into it
	actions           map[state.ActionID]*state.Action
	effects           map[state.EffectID]*state.Effect      // none is changed in place: agendas hold them, too
	effectsByIncident map[state.IncidentID][]state.EffectID // the effects of an incident
	evidence          map[state.IncidentID]*state.Evidence
	workers           map[string]*workerRecord // by cluster, namespace and pod or address
	atAddress         map[string]string        // cluster/address → the worker's key
	halts             map[string]*state.Halt   // by cluster
	meta              boardMeta

	open       *index.Index                 // the open incidents, by the keys of their entities
	everywhere map[string]*state.Incident   // open incidents that count one rule's alerts wherever they fire
	ended      map[string][]*state.Incident // named incidents that ended a short time ago, by cluster and cause
	onNode     map[string]map[string]bool   // worker keys by cluster and node
	shared     *packed.Sharer               // of the alerts
	near       []*state.Incident            // the candidates of the last new alert
	timers     timerHeap
	dirty      map[string]change // records to write, or to delete, by key
	touched    uint64            // number of changes to records
	entries    []state.Entry     // timeline entries to write
	erased     []string          // keys of timeline entries to delete
}

// boardMeta holds the partition's counters.
type boardMeta struct {
	Incidents int            `json:"incidents,omitempty"` // the last short number of older boards, which had one count for all clusters
	Numbers   map[string]int `json:"numbers,omitempty"`   // by cluster: the last short number
	SweptAt   time.Time      `json:"swept_at,omitzero"`
	// HeardFrom holds the time at which inputs came again after hours without any, or the clock was
	// set. No alert is stale before StaleAfter from then.
	HeardFrom time.Time `json:"heard_from,omitzero"`

	Floods map[state.Channel]*state.Flood `json:"floods,omitempty"` // only in the partition of inputs without a cluster
}

// A workerRecord is a worker with the time of the last evidence about it.
type workerRecord struct {
	Cluster string       `json:"cluster"`
	Worker  state.Worker `json:"worker"`
	At      time.Time    `json:"at"`
}

// NewBoard returns an empty board.
func NewBoard() *Board {
	return &Board{
		incidents:         map[state.IncidentID]*state.Incident{},
		alerts:            packed.NewAlerts(0),
		shared:            packed.NewSharer(),
		actions:           map[state.ActionID]*state.Action{},
		effects:           map[state.EffectID]*state.Effect{},
		effectsByIncident: map[state.IncidentID][]state.EffectID{},
		evidence:          map[state.IncidentID]*state.Evidence{},
		workers:           map[string]*workerRecord{},
		atAddress:         map[string]string{},
		halts:             map[string]*state.Halt{},
		open:              index.New(),
		everywhere:        map[string]*state.Incident{},
		ended:             map[string][]*state.Incident{},
		onNode:            map[string]map[string]bool{},
		dirty:             map[string]change{},
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

// recordKey returns a record's key. An ID with bytes that a key may not have is hashed. The value
// has the ID itself.
func recordKey(kind, id string) string {
	for _, r := range id {
		if !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return kind + ".x" + state.Hash(id)
		}
	}
	return kind + "." + id
}

// Changes returns the number of records that the next Take returns.
func (b *Board) Changes() int { return len(b.dirty) + len(b.entries) + len(b.erased) }

// Take returns the records that were changed since the last Take, and the timeline entries among
// them. It encodes many of them on every processor.
func (b *Board) Take() ([]state.Record, []state.Entry, error) {
	keys := slices.Sorted(maps.Keys(b.dirty))
	records := make([]state.Record, 0, b.Changes())
	values := make([]any, 0, cap(records))
	for _, key := range keys {
		records, values = append(records, state.Record{Key: key}), append(values, b.lookup(b.dirty[key]))
	}
	for _, key := range b.erased {
		records, values = append(records, state.Record{Key: key}), append(values, nil)
	}
	for _, e := range b.entries {
		records = append(records, state.Record{Key: timelineKey(e.Incident, e.N)})
		values = append(values, e)
	}
	if err := encode(records, values); err != nil {
		return nil, nil, err
	}
	entries := b.entries
	b.entries, b.erased = nil, nil
	clear(b.dirty)
	return records, entries, nil
}

// encodeLeast is the least number of records for which a goroutine is worth its start. They take
// about a tenth of a millisecond.
const encodeLeast = 32

// encode sets the records' values. A nil value means deleted.
func encode(records []state.Record, values []any) error {
	processors := runtime.GOMAXPROCS(0)
	size := max(encodeLeast, (len(records)+processors-1)/processors)
	var encoding errgroup.Group
	for from := 0; from < len(records); from += size {
		part := func() error { return encodePart(records[from:min(from+size, len(records))], values[from:]) }
		if from+size >= len(records) { // the last part needs no goroutine
			return cmp.Or(part(), encoding.Wait())
		}
		encoding.Go(part)
	}
	return nil
}

func encodePart(records []state.Record, values []any) (err error) {
	for i := range records {
		if values[i] == nil {
			continue
		}
		if records[i].Value, err = json.Marshal(values[i]); err != nil {
			return fmt.Errorf("encoding record %s: %w", records[i].Key, err)
		}
	}
	return nil
}

func timelineKey(id state.IncidentID, n int) string {
	return state.TimelinePrefix + "." + string(id) + "." + strconv.Itoa(n)
}

// A change names a record that was written or deleted.
type change struct{ kind, id string }

// lookup returns the changed record, or nil if it was deleted.
func (b *Board) lookup(c change) any {
	switch c.kind {
	case kindIncident:
		return orNil(b.incidents[state.IncidentID(c.id)])
	case kindAlert:
		return orNil(b.alerts.Get(state.Fingerprint(c.id)))
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
	b.dirty[recordKey(kind, id)] = change{kind, id}
}

// root returns the incident itself, or the one that it was merged into.
func (b *Board) root(id state.IncidentID) *state.Incident {
	in := b.incidents[id]
	for in != nil && in.MergedInto != "" {
		in = b.incidents[in.MergedInto]
	}
	return in
}

// ClockCluster returns a cluster in which a step of the clock moves something, or nothing if there
// is none.
func (b *Board) ClockCluster() string {
	for _, in := range b.incidents {
		if in.Open() {
			return in.Cluster
		}
	}
	for _, a := range b.actions {
		if (hasRunner(a) || a.Begun()) && a.Target.Cluster != "" { // else its record is unreadable
			return a.Target.Cluster
		}
	}
	return ""
}

// Incidents returns copies of all incidents on the board, in the order of their short numbers.
func (b *Board) Incidents() []state.Incident {
	out := make([]state.Incident, 0, len(b.incidents))
	for _, in := range b.incidents {
		out = append(out, in.Clone())
	}
	slices.SortFunc(out, func(x, y state.Incident) int { return cmp.Compare(x.Number, y.Number) })
	return out
}

// Due returns the effects that are due, the oldest first.
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

// addEffect adds an effect.
func (b *Board) addEffect(e *state.Effect) {
	b.effects[e.ID] = e
	b.effectsByIncident[e.Incident] = append(b.effectsByIncident[e.Incident], e.ID)
}

// changeEffect puts a changed copy in the place of an effect.
func (b *Board) changeEffect(e *state.Effect, change func(*state.Effect)) {
	changed := *e
	change(&changed)
	b.effects[e.ID] = &changed
	b.touch(kindEffect, string(e.ID))
}

// removeEffect removes an effect.
func (b *Board) removeEffect(e *state.Effect) {
	delete(b.effects, e.ID)
	left := slices.DeleteFunc(b.effectsByIncident[e.Incident], func(id state.EffectID) bool { return id == e.ID })
	if len(left) == 0 {
		delete(b.effectsByIncident, e.Incident)
		return
	}
	b.effectsByIncident[e.Incident] = left
}

// sortEffects orders effects by due time, then by age.
func sortEffects(effects []state.Effect) {
	slices.SortFunc(effects, func(x, y state.Effect) int {
		return cmp.Or(x.Due.Compare(y.Due), x.Since.Compare(y.Since), strings.Compare(string(x.ID), string(y.ID)))
	})
}
