package agenda

import (
	"cmp"
	"container/heap"
	"strings"
)

// The heaps that an item can be in.
const (
	byDue = iota
	byUrgency
	byAge
	byOwed
	heaps
)

// An effectHeap is a heap of items that stores the index of each, so that any of them can be
// removed.
type effectHeap struct {
	slot  int
	items []*item
}

func (p *effectHeap) Len() int { return len(p.items) }

func (p *effectHeap) Less(i, j int) bool {
	x, y := p.items[i], p.items[j]
	switch p.slot {
	case byDue:
		return x.effect.Due.Before(y.effect.Due)
	case byOwed:
		return x.owedSince().Before(y.owedSince())
	case byAge:
		return cmp.Or(x.owedSince().Compare(y.owedSince()),
			strings.Compare(string(x.effect.ID), string(y.effect.ID))) < 0
	}
	if x.urgency.severity != y.urgency.severity {
		return x.urgency.severity > y.urgency.severity
	}
	if x.urgency.diagnosed != y.urgency.diagnosed {
		return y.urgency.diagnosed
	}
	return cmp.Or(cmp.Compare(y.urgency.size, x.urgency.size),
		x.effect.Due.Compare(y.effect.Due), x.effect.Since.Compare(y.effect.Since),
		strings.Compare(string(x.effect.ID), string(y.effect.ID))) < 0
}

func (p *effectHeap) Swap(i, j int) {
	p.items[i], p.items[j] = p.items[j], p.items[i]
	p.items[i].at[p.slot], p.items[j].at[p.slot] = i+1, j+1
}

// Push is for container/heap. Use put.
func (p *effectHeap) Push(x any) {
	it := x.(*item)
	p.items = append(p.items, it)
	it.at[p.slot] = len(p.items)
}

// Pop is for container/heap. Use drop.
func (p *effectHeap) Pop() any {
	last := len(p.items) - 1
	it := p.items[last]
	p.items[last] = nil
	p.items = p.items[:last]
	it.at[p.slot] = 0
	return it
}

func (p *effectHeap) first() *item {
	if len(p.items) == 0 {
		return nil
	}
	return p.items[0]
}

func (p *effectHeap) put(it *item) { heap.Push(p, it) }

// drop removes the item if it is in the heap.
func (p *effectHeap) drop(it *item) {
	if at := it.at[p.slot]; at > 0 {
		heap.Remove(p, at-1)
	}
}
