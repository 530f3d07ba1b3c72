package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"paramedic/internal/onepass"
	"paramedic/state"
	"paramedic/state/fold/index"
	"paramedic/state/fold/packed"
)

// LoadBoard returns the board of the records that [Board.Take] returned, without those that were
// deleted later.
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

// BoardOf returns the board of the values that [DecodeRecord] returned for a partition's records.
func BoardOf(values []any) *Board {
	b := NewBoard()
	b.alerts = packed.NewAlerts(len(values) / 2) // most records are alerts and effects
	for _, v := range values {
		b.put(v)
	}
	// In order, so that each insertion is at the end of its lists.
	for _, in := range slices.SortedFunc(maps.Values(b.incidents), index.ByOpening) {
		for a := range b.alerts.Of(in.ID) {
			b.shared.Share(a)
		}
		in.Actions = slices.DeleteFunc(in.Actions, func(id state.ActionID) bool { return b.actions[id] == nil })
		if in.Open() {
			b.indexParts(in, in)
			b.indexEverywhere(in)
		}
		b.rememberEnd(in)
		b.setTimer(in, in.NotifyBy)
		b.setTimer(in, in.HoldUntil)
		b.setTimer(in, in.SilencedUntil)
		b.completeUnreadable(in)
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
	case *packed.Alert:
		b.alerts.Put(v)
	case *state.Action:
		b.actions[v.ID] = v
	case *state.Effect:
		b.addEffect(v)
	case *state.Evidence:
		b.evidence[v.Incident] = v
	case *workerRecord:
		b.putWorker(v)
	case *haltRecord:
		b.halts[v.Cluster] = &v.Halt
	case *boardMeta:
		b.meta = *v
	}
}

// DecodeRecord decodes a record to the value that a board holds. It is a [state.Decoder].
func DecodeRecord(r state.Record) (any, error) {
	kind, _, _ := strings.Cut(r.Key, ".")
	switch kind {
	case kindIncident:
		return decodeIncident(r.Value)
	case kindAlert:
		return packed.Decode(r.Value)
	case kindAction:
		return decodeAction(r), nil
	case kindEffect:
		return decode[state.Effect](r.Value)
	case kindEvidence:
		return decodeEvidence(r.Value)
	case kindWorker:
		return decode[workerRecord](r.Value)
	case kindHalt:
		return decode[haltRecord](r.Value)
	case kindMeta:
		return decode[boardMeta](r.Value)
	}
	return nil, fmt.Errorf("unknown kind %q: it was written by a newer version", kind)
}

func decodeIncident(value []byte) (*state.Incident, error) {
	in, err := decode[state.Incident](value)
	packed.ShareTexts(&in.Diagnosis)
	return in, err
}

// decodeEvidence is [state.Evidence.UnmarshalJSON] with a faster library.
func decodeEvidence(value []byte) (*state.Evidence, error) {
	type plain state.Evidence // without its methods
	var stored struct {
		plain
		Missing jsontext.Value `json:"missing"`
	}
	if err := onepass.Unmarshal(value, &stored); err != nil {
		return nil, err
	}
	e := state.Evidence(stored.plain)
	var err error
	e.Missing, err = state.DecodeMissing(stored.Missing)
	return &e, err
}

type haltRecord struct {
	Cluster string     `json:"cluster"`
	Halt    state.Halt `json:"halt"`
}

func decode[T any](value []byte) (*T, error) {
	v := new(T)
	return v, onepass.Unmarshal(value, v)
}
