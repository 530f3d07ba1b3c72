package fold

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
)

// maxCandidates bounds the open incidents that a new sign is compared with, newest first. The cost
// of an alert thus does not grow with the number of open incidents.
const maxCandidates = 64

// byOpening orders incidents by age, the oldest first.
func byOpening(x, y *state.Incident) int {
	return cmp.Or(x.OpenedAt.Compare(y.OpenedAt), strings.Compare(string(x.ID), string(y.ID)))
}

// maxBlock bounds the incidents of one block of a list.
const maxBlock = 256

// An incidentList holds open incidents, the newest last. Most lists have one. A longer one is cut
// into blocks, so that no change moves the whole list.
type incidentList struct {
	only   *state.Incident     // if there is one
	blocks [][]*state.Incident // if there are several
}

// block returns the index of the block that has the incident, or to which it is added.
func (l incidentList) block(in *state.Incident) int {
	i, _ := slices.BinarySearchFunc(l.blocks, in, func(block []*state.Incident, in *state.Incident) int {
		return byOpening(block[len(block)-1], in)
	})
	return min(i, len(l.blocks)-1)
}

func (l incidentList) isEmpty() bool { return l.only == nil && len(l.blocks) == 0 }

// with returns the list with the incident, and reports whether it was not there before. The list
// that it is called on is not valid any more.
func (l incidentList) with(in *state.Incident) (list incidentList, added bool) {
	switch {
	case l.isEmpty():
		return incidentList{only: in}, true
	case l.only == in:
		return l, false
	case l.only != nil:
		l = incidentList{blocks: [][]*state.Incident{{l.only}}}
	}
	i := l.block(in)
	at, found := slices.BinarySearchFunc(l.blocks[i], in, byOpening)
	if found {
		return l, false
	}
	block := slices.Insert(l.blocks[i], at, in)
	if l.blocks[i] = block; len(block) <= maxBlock {
		return l, true
	}
	half := maxBlock / 2
	if i == len(l.blocks)-1 && at == maxBlock {
		half = maxBlock // most incidents are added at the end: the blocks before it stay full
	}
	later := slices.Clone(block[half:])
	l.blocks[i] = slices.Delete(block, half, len(block))
	l.blocks = slices.Insert(l.blocks, i+1, later)
	return l, true
}

// without returns the list without the incident. The list that it is called on is not valid any
// more.
func (l incidentList) without(in *state.Incident) incidentList {
	if l.only == in {
		return incidentList{}
	}
	if len(l.blocks) == 0 {
		return l
	}
	i := l.block(in)
	at, found := slices.BinarySearchFunc(l.blocks[i], in, byOpening)
	if !found {
		return l
	}
	block := slices.Delete(l.blocks[i], at, at+1)
	l.blocks[i] = block
	switch {
	case len(block) == 0:
		l.blocks = slices.Delete(l.blocks, i, i+1)
	case i+1 < len(l.blocks) && len(block)+len(l.blocks[i+1]) <= maxBlock/2:
		l.blocks[i] = append(block, l.blocks[i+1]...)
		l.blocks = slices.Delete(l.blocks, i+1, i+2)
	}
	if len(l.blocks) == 1 && len(l.blocks[0]) == 1 {
		return incidentList{only: l.blocks[0][0]}
	}
	return l
}

// newest yields the incidents that a sign is compared with, newest first.
func (l incidentList) newest(yield func(*state.Incident) bool) {
	c := l.cursor()
	for range maxCandidates {
		in := c.next()
		if in == nil || !yield(in) {
			return
		}
		c.pop()
	}
}

// A cursor walks a list, newest first.
type cursor struct {
	only   *state.Incident
	blocks [][]*state.Incident // those before the current one
	block  []*state.Incident   // the current one, without the incidents that were popped
}

func (l incidentList) cursor() cursor { return cursor{only: l.only, blocks: l.blocks} }

// next returns the newest incident that is open and not popped yet, or nil.
func (c *cursor) next() *state.Incident {
	if c.only != nil && c.only.Open() {
		return c.only
	}
	for {
		for len(c.block) > 0 {
			if in := c.block[len(c.block)-1]; in.Open() {
				return in
			}
			c.pop()
		}
		if len(c.blocks) == 0 {
			return nil
		}
		c.block, c.blocks = c.blocks[len(c.blocks)-1], c.blocks[:len(c.blocks)-1]
	}
}

func (c *cursor) pop() {
	if c.only != nil {
		c.only = nil
		return
	}
	c.block = c.block[:len(c.block)-1]
}

// appendCandidates appends the open incidents that a sign with these keys may belong to, newest
// first, at most maxCandidates. Those with a common entity come first, then those with the same
// rule, the same job or without a place. A sign without a place may belong to any incident.
func (b *Board) appendCandidates(to []*state.Incident, keys []string) []*state.Incident {
	from := len(to)
	b.cursors = b.cursors[:0]
	add := func(l incidentList) {
		if !l.isEmpty() {
			b.cursors = append(b.cursors, l.cursor())
		}
	}
	for _, key := range keys {
		if namesPlace(key) {
			add(b.byKey[key])
		}
	}
	to = appendNewest(to, from, b.cursors)
	b.cursors = b.cursors[:0]
	nowhere := false
	for _, key := range keys {
		if !namesPlace(key) {
			add(b.byKey[key])
			nowhere = nowhere || key == noPlaceKey
		}
	}
	if !nowhere {
		add(b.byKey[noPlaceKey])
	}
	to = appendNewest(to, from, b.cursors)
	if nowhere {
		b.cursors = b.cursors[:0]
		add(b.open)
		to = appendNewest(to, from, b.cursors)
	}
	return to
}

// appendNewest appends the incidents of all lists, newest first. It stops at maxCandidates after
// from, and skips those that are there already.
func appendNewest(to []*state.Incident, from int, lists []cursor) []*state.Incident {
	for len(to)-from < maxCandidates {
		var newest *state.Incident
		var of *cursor
		for i := range lists {
			if in := lists[i].next(); in != nil && (newest == nil || byOpening(in, newest) > 0) {
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

// size returns the number of incidents.
func (l incidentList) size() (n int) {
	if l.only != nil {
		return 1
	}
	for _, block := range l.blocks {
		n += len(block)
	}
	return n
}
