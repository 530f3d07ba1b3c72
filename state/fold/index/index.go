// Package index finds the open incidents that a sign may belong to.
package index

import (
	"iter"
	"slices"
	"strings"

	"paramedic/state"
)

// MaxCandidates bounds the open incidents that a new sign is compared with, newest first. The cost
// of an alert thus does not grow with the number of open incidents.
const MaxCandidates = 64

// A Key stands for a name under which incidents are found: of a place, such as a pod, or of
// something else, such as a rule. It is a hash, because an incident has many. If two names had one
// key, signs would be compared with more incidents.
type Key uint64

// placeBit is set in the keys of places.
const placeBit Key = 1

// PlaceKey returns the key of a place's name. Case does not matter.
func PlaceKey(kind, name string) Key { return hash(kind, name) | placeBit }

// OtherKey returns the key of a name that is no place. Case does not matter.
func OtherKey(kind, name string) Key { return hash(kind, name) &^ placeBit }

// Nowhere is the key of incidents and signs without a place.
var Nowhere = OtherKey("nowhere", "")

// NamesPlace reports whether the key stands for a place.
func (k Key) NamesPlace() bool { return k&placeBit != 0 }

// hash returns the FNV-1a hash (hash/fnv) of the kind and the name. It is the same in each process.
func hash(kind, name string) Key {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range [...]string{kind, ":", strings.ToLower(name)} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	return Key(h)
}

// An Index finds open incidents by their keys. It is not safe for concurrent use.
type Index struct {
	open    list
	byKey   map[Key]list
	keys    map[state.IncidentID][]Key
	cursors []cursor // used again
}

// New returns an empty index.
func New() *Index { return &Index{byKey: map[Key]list{}, keys: map[state.IncidentID][]Key{}} }

// Len returns the number of incidents.
func (x *Index) Len() int { return x.open.size() }

// Keys returns the keys of an incident. The caller must not change them.
func (x *Index) Keys(id state.IncidentID) []Key { return x.keys[id] }

// Add makes an incident findable by more keys.
func (x *Index) Add(in *state.Incident, keys []Key) {
	own, known := x.keys[in.ID]
	if !known {
		x.open, _ = x.open.with(in)
	}
	for _, key := range keys {
		if list, added := x.byKey[key].with(in); added {
			own = append(own, key)
			x.byKey[key] = list
		}
	}
	x.keys[in.ID] = own
}

// Remove removes an incident.
func (x *Index) Remove(in *state.Incident) {
	for _, key := range x.keys[in.ID] {
		if left := x.byKey[key].without(in); !left.isEmpty() {
			x.byKey[key] = left
		} else {
			delete(x.byKey, key)
		}
	}
	delete(x.keys, in.ID)
	x.open = x.open.without(in)
}

// Newest yields the newest MaxCandidates open incidents with a key, newest first.
func (x *Index) Newest(key Key) iter.Seq[*state.Incident] { return x.byKey[key].newest }

// AppendCandidates appends the open incidents that a sign with these keys may belong to, newest
// first, at most MaxCandidates. Those with a common place come first, then those with another
// common key or without a place. A sign without a place may belong to any incident.
func (x *Index) AppendCandidates(to []*state.Incident, keys []Key) []*state.Incident {
	from := len(to)
	x.cursors = x.cursors[:0]
	add := func(l list) {
		if !l.isEmpty() {
			x.cursors = append(x.cursors, l.cursor())
		}
	}
	for _, key := range keys {
		if key.NamesPlace() {
			add(x.byKey[key])
		}
	}
	to = appendNewest(to, from, x.cursors)
	x.cursors = x.cursors[:0]
	nowhere := false
	for _, key := range keys {
		if !key.NamesPlace() {
			add(x.byKey[key])
			nowhere = nowhere || key == Nowhere
		}
	}
	if !nowhere {
		add(x.byKey[Nowhere])
	}
	to = appendNewest(to, from, x.cursors)
	if nowhere {
		x.cursors = x.cursors[:0]
		add(x.open)
		to = appendNewest(to, from, x.cursors)
	}
	return to
}

// appendNewest appends the incidents of all lists, newest first. It stops at MaxCandidates after
// from, and skips those that are there already.
func appendNewest(to []*state.Incident, from int, lists []cursor) []*state.Incident {
	for len(to)-from < MaxCandidates {
		var newest *state.Incident
		var of *cursor
		for i := range lists {
			if in := lists[i].next(); in != nil && (newest == nil || ByOpening(in, newest) > 0) {
				newest, of = in, &lists[i]
			}
		}
		if newest == nil {
			return to
		}
		of.pop()
		if !slices.Contains(to[from:], newest) {
			to = append(to, newest)
		}
	}
	return to
}
