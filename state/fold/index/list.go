package index

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
)

// ByOpening orders incidents by age, the oldest first.
func ByOpening(x, y *state.Incident) int {
	return cmp.Or(x.OpenedAt.Compare(y.OpenedAt), strings.Compare(string(x.ID), string(y.ID)))
}

// maxBlock bounds the incidents of one block of a list.
const maxBlock = 256

// A list holds open incidents, the newest last. Most lists have one. A longer one is cut into
// blocks, so that no change moves the whole list.
type list struct {
	only *state.Incident      // if there is one
	more *[][]*state.Incident // the blocks, if there are several
}

func (l list) blocks() [][]*state.Incident {
	if l.more == nil {
		return nil
	}
	return *l.more
}

// blockOf returns the index of the block that has the incident, or to which it is added.
func blockOf(blocks [][]*state.Incident, in *state.Incident) int {
	i, _ := slices.BinarySearchFunc(blocks, in, func(block []*state.Incident, in *state.Incident) int {
		return ByOpening(block[len(block)-1], in)
	})
	return min(i, len(blocks)-1)
}

func (l list) isEmpty() bool { return l.only == nil && l.more == nil }

// with returns the list with the incident, and reports whether it was not there before. The list
// that it is called on is not valid any more.
func (l list) with(in *state.Incident) (longer list, added bool) {
	switch {
	case l.isEmpty():
		return list{only: in}, true
	case l.only == in:
		return l, false
	case l.only != nil:
		l = list{more: &[][]*state.Incident{{l.only}}}
	}
	blocks := *l.more
	i := blockOf(blocks, in)
	at, found := slices.BinarySearchFunc(blocks[i], in, ByOpening)
	if found {
		return l, false
	}
	block := slices.Insert(blocks[i], at, in)
	if blocks[i] = block; len(block) <= maxBlock {
		return l, true
	}
	half := maxBlock / 2
	if i == len(blocks)-1 && at == maxBlock {
		half = maxBlock // most incidents are added at the end: the blocks before it stay full
	}
	later := slices.Clone(block[half:])
	blocks[i] = slices.Delete(block, half, len(block))
	*l.more = slices.Insert(blocks, i+1, later)
	return l, true
}

// without returns the list without the incident. The list that it is called on is not valid any
// more.
func (l list) without(in *state.Incident) list {
	if l.only == in {
		return list{}
	}
	if l.more == nil {
		return l
	}
	blocks := *l.more
	i := blockOf(blocks, in)
	at, found := slices.BinarySearchFunc(blocks[i], in, ByOpening)
	if !found {
		return l
	}
	block := slices.Delete(blocks[i], at, at+1)
	blocks[i] = block
	switch {
	case len(block) == 0:
		blocks = slices.Delete(blocks, i, i+1)
	case i+1 < len(blocks) && len(block)+len(blocks[i+1]) <= maxBlock/2:
		blocks[i] = append(block, blocks[i+1]...)
		blocks = slices.Delete(blocks, i+1, i+2)
	}
	if len(blocks) == 1 && len(blocks[0]) == 1 {
		return list{only: blocks[0][0]}
	}
	*l.more = blocks
	return l
}

// newest yields the incidents that a sign is compared with, newest first.
func (l list) newest(yield func(*state.Incident) bool) {
	c := l.cursor()
	for range MaxCandidates {
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

func (l list) cursor() cursor { return cursor{only: l.only, blocks: l.blocks()} }

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

// size returns the number of incidents.
func (l list) size() (n int) {
	if l.only != nil {
		return 1
	}
	for _, block := range l.blocks() {
		n += len(block)
	}
	return n
}
