// Package textmap has maps of strings in little memory, which are read and written as JSON without
// a Go map.
package textmap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	json "github.com/go-json-experiment/json/v1"
)

// A Map is a map of strings as two lists: its sorted names, and their values. Each list is one
// string: the number of entries, and each entry after its length. Maps with equal names can share
// their list. The zero value is a nil map.
type Map struct{ Names, Values string }

// Of returns a map in little memory.
func Of(m map[string]string) Map {
	if m == nil {
		return Map{}
	}
	var few [32]string
	b := builders.Get().(*builder)
	defer builders.Put(b)
	b.reset()
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.add(name, m[name])
	}
	return b.done()
}

// A builder collects the entries of a map, in the order of their names.
type builder struct {
	n             int
	names, values []byte // the first byte has room for the number of entries

	last, name, value []byte // of the JSON that is being read
}

var builders = sync.Pool{New: func() any { return &builder{names: make([]byte, 1), values: make([]byte, 1)} }}

func (b *builder) reset() { b.n, b.names, b.values, b.last = 0, b.names[:1], b.values[:1], b.last[:0] }

func (b *builder) add(name, value string) {
	b.n++
	b.names = append(binary.AppendUvarint(b.names, uint64(len(name))), name...)
	b.values = append(binary.AppendUvarint(b.values, uint64(len(value))), value...)
}

func (b *builder) addBytes(name, value []byte) {
	b.n++
	b.names = append(binary.AppendUvarint(b.names, uint64(len(name))), name...)
	b.values = append(binary.AppendUvarint(b.values, uint64(len(value))), value...)
}

func (b *builder) done() Map {
	if b.n >= 0x80 {
		count := string(binary.AppendUvarint(nil, uint64(b.n)))
		return Map{Names: count + string(b.names[1:]), Values: count + string(b.values[1:])}
	}
	b.names[0], b.values[0] = byte(b.n), byte(b.n)
	return Map{Names: string(b.names), Values: string(b.values)}
}

// Unpack returns the map. Its strings use the memory of the lists.
func (m Map) Unpack() map[string]string {
	if m.Names == "" {
		return nil
	}
	_, n := cutNumber(m.Names)
	out := make(map[string]string, n)
	_ = m.each(func(name, value string) error { out[name] = value; return nil })
	return out
}

// Get returns the value of a name.
func (m Map) Get(name string) (value string, ok bool) {
	_ = m.each(func(n, v string) error {
		if n == name {
			value, ok = v, true
		}
		return nil
	})
	return value, ok
}

// Within returns the equal part of the values if there is one, so that both use the same memory.
// Otherwise it returns a copy: s may be a part of a longer text.
func (m Map) Within(s string) string {
	if i := strings.Index(m.Values, s); i >= 0 {
		return m.Values[i : i+len(s)]
	}
	return strings.Clone(s)
}

// IsZero reports whether the map is empty.
func (m Map) IsZero() bool { return len(m.Names) <= 1 }

// each calls visit for each entry in the order of the names, until it fails.
func (m Map) each(visit func(name, value string) error) error {
	if m.Names == "" {
		return nil
	}
	names, n := cutNumber(m.Names)
	values, _ := cutNumber(m.Values)
	for range n {
		var name, value string
		name, names = cutText(names)
		value, values = cutText(values)
		if err := visit(name, value); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSONTo writes the map as Go maps are written.
func (m Map) MarshalJSONTo(to *jsontext.Encoder) error {
	if m.Names == "" {
		return to.WriteToken(jsontext.Null)
	}
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	if err := m.each(func(name, value string) error {
		if err := to.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		return to.WriteToken(jsontext.String(value))
	}); err != nil {
		return err
	}
	return to.WriteToken(jsontext.EndObject)
}

// UnmarshalJSONFrom reads a map of strings. Of a name that comes twice it keeps the last value.
func (m *Map) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*m = Map{}
	begin, err := from.ReadToken()
	if err != nil || begin.Kind() == 'n' {
		return err
	}
	if begin.Kind() != '{' {
		return fmt.Errorf("%s instead of an object of strings", begin.Kind())
	}
	b := builders.Get().(*builder)
	defer builders.Put(b)
	b.reset()
	var unsorted map[string]string // nil while the names are in order
	for from.PeekKind() != '}' {
		if b.name, err = readText(from, b.name[:0]); err != nil {
			return err
		}
		if b.value, err = readText(from, b.value[:0]); err != nil {
			return err
		}
		if unsorted == nil && b.n > 0 && bytes.Compare(b.name, b.last) <= 0 {
			unsorted = b.done().Unpack()
		}
		if unsorted != nil {
			unsorted[string(b.name)] = string(b.value)
			continue
		}
		b.addBytes(b.name, b.value)
		b.last = append(b.last[:0], b.name...)
	}
	if *m = b.done(); unsorted != nil {
		*m = Of(unsorted)
	}
	_, err = from.ReadToken()
	return err
}

// readText reads a string, or null as an empty one, into the buffer.
func readText(from *jsontext.Decoder, buffer []byte) ([]byte, error) {
	raw, err := from.ReadValue()
	if err != nil {
		return nil, err
	}
	switch raw.Kind() {
	case 'n':
		return buffer, nil
	case '"':
		text, err := jsontext.AppendUnquote(buffer, raw)
		if err != nil { // invalid UTF-8, which is replaced in other texts
			var s string
			err = json.Unmarshal(raw, &s)
			return append(buffer, s...), err
		}
		return text, nil
	}
	return nil, fmt.Errorf("%s instead of a string", raw.Kind())
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
