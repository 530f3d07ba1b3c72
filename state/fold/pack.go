package fold

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/state"
)

// An alertRecord is an alert on the board, in little memory: its labels and annotations are packed.
// The labels of the embedded record have the rule's name only, and it has no annotations.
type alertRecord struct {
	state.AlertRecord
	labels, annotations packed
}

// full returns the record as it is stored.
func (r *alertRecord) full() *state.AlertRecord {
	out := r.AlertRecord
	out.Alert.Labels, out.Alert.Annotations = r.labels.unpack(), r.annotations.unpack()
	return &out
}

// MarshalJSON returns the JSON of the record as it is stored.
func (r *alertRecord) MarshalJSON() ([]byte, error) { return json.Marshal(r.full()) }

// packRecord returns a record as the board holds it.
func packRecord(rec state.AlertRecord) *alertRecord {
	r := &alertRecord{AlertRecord: rec}
	r.pack()
	return r
}

func decodeAlert(value []byte) (*alertRecord, error) {
	r := &alertRecord{}
	err := json.Unmarshal(value, &r.AlertRecord)
	r.pack()
	return r, err
}

// pack moves the labels and annotations out of the alert.
func (r *alertRecord) pack() {
	a := &r.Alert
	r.labels, r.annotations = pack(a.Labels), pack(a.Annotations)
	name, named := a.Labels[ruleLabel]
	if a.Labels, a.Annotations = nil, nil; named {
		a.Labels = map[string]string{ruleLabel: name}
	}
	e := &r.Sign.Entity
	for _, s := range []*string{&e.Pod, &e.Instance, &e.Pool, &e.Node, &e.Model, &e.Namespace, &e.GPU, &e.Job, &e.Service} {
		*s = within(r.labels.values, *s)
	}
}

const ruleLabel = "alertname"

// within returns the equal part of text if it has one, so that both use the same memory.
func within(text, s string) string {
	if i := strings.Index(text, s); i >= 0 {
		return text[i : i+len(s)]
	}
	return strings.Clone(s) // it may be a part of a longer text
}

// share makes a record use the memory of the rule's alert before it, where both are equal.
func (b *Board) share(r *alertRecord) {
	name := r.Alert.Name()
	last := b.lastOf[name]
	if last == nil && len(b.lastOf) >= maxShared {
		clear(b.lastOf)
	}
	b.lastOf[name] = r
	if last == nil || last == r {
		return
	}
	x, y := &r.Sign, &last.Sign
	for _, s := range [][2]*string{{&r.labels.names, &last.labels.names}, {&r.labels.values, &last.labels.values},
		{&r.annotations.names, &last.annotations.names}, {&r.annotations.values, &last.annotations.values},
		{&r.Alert.GeneratorURL, &last.Alert.GeneratorURL}, {(*string)(&r.Incident), (*string)(&last.Incident)},
		{(*string)(&r.Alert.Status), (*string)(&last.Alert.Status)}, {(*string)(&x.Symptom), (*string)(&y.Symptom)},
		{(*string)(&x.Severity), (*string)(&y.Severity)}, {&x.By, &y.By}, {&x.Entity.Cluster, &y.Entity.Cluster},
		{&x.Entity.Pool, &y.Entity.Pool}, {&x.Entity.Model, &y.Entity.Model}} {
		if *s[0] == *s[1] {
			*s[0] = *s[1]
		}
	}
	if maps.Equal(r.Alert.Labels, last.Alert.Labels) {
		r.Alert.Labels = last.Alert.Labels
	}
	if len(x.Hints) > 0 && maps.Equal(x.Hints, y.Hints) {
		x.Hints = y.Hints
	}
}

// maxShared bounds the rules whose last alert is known.
const maxShared = 4096

// A packed is a map of strings as two lists: its sorted names, and their values. Each list is one
// string: the number of entries, and each entry after its length. The zero value is a nil map.
type packed struct{ names, values string }

func pack(m map[string]string) packed {
	if m == nil {
		return packed{}
	}
	var few [32]string
	var small [512]byte
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	list := func(of func(name string) string) string {
		out := binary.AppendUvarint(small[:0], uint64(len(names)))
		for _, name := range names {
			s := of(name)
			out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
		}
		return string(out)
	}
	return packed{names: list(func(name string) string { return name }), values: list(func(name string) string { return m[name] })}
}

// unpack returns the map. Its strings use the memory of the lists.
func (p packed) unpack() map[string]string {
	if p.names == "" {
		return nil
	}
	names, n := cutNumber(p.names)
	values, _ := cutNumber(p.values)
	m := make(map[string]string, n)
	for range n {
		var name, value string
		name, names = cutText(names)
		value, values = cutText(values)
		m[name] = value
	}
	return m
}

func cutNumber(s string) (rest string, n int) {
	for shift := 0; ; shift += 7 {
		c := s[0]
		s = s[1:]
		n |= int(c&0x7f) << shift
		if c < 0x80 {
			return s, n
		}
	}
}

func cutText(s string) (text, rest string) {
	s, n := cutNumber(s)
	return s[:n], s[n:]
}
