package rules

import (
	"sync"

	"paramedic/state"
)

// memory holds the allocations of one view, for reuse by the next. Otherwise each diagnosis would
// leave a third of a megabyte to the garbage collector.
type memory struct {
	readings arena[reading]
	samples  arena[int32]
	groups   arena[group]
	asked    arena[*answers]
	answers  arena[answers]
	hits     arena[*group]
	wholes   arena[whole]
	seen     arena[seen]
	unmet    arena[unmet]
	evidence arena[*Evidence]
	ranked   arena[weighed]
	points   arena[state.Point]
	lines    arena[[]state.Point]
	series   arena[series]
	names    arena[string]
	keys     []string // a view's keys
	ids      arena[int]
	byKey    map[string]int     // a view's ids
	bySignal map[string]*series // a view's signals
	gpusOf   map[int][]int      // a view's gpusOf
}

var memories = sync.Pool{New: func() any {
	return &memory{byKey: map[string]int{}, bySignal: map[string]*series{}, gpusOf: map[int][]int{}}
}}

// release recycles the view's memory. Afterwards neither the view nor its results may be used.
func (v *view) release() {
	v.memory.readings.reset()
	v.memory.samples.reset()
	v.memory.groups.reset()
	v.memory.asked.reset()
	v.memory.answers.reset()
	v.memory.hits.reset()
	v.memory.wholes.reset()
	v.memory.seen.reset()
	v.memory.unmet.reset()
	v.memory.evidence.reset()
	v.memory.ranked.reset()
	v.memory.points.reset()
	v.memory.lines.reset()
	v.memory.series.reset()
	v.memory.names.reset()
	v.memory.ids.reset()
	clear(v.keys)
	v.memory.keys = v.keys[:0]
	clear(v.memory.byKey)
	clear(v.memory.bySignal)
	clear(v.memory.gpusOf)
	memories.Put(v.memory)
	v.memory = nil
}

// An arena hands out zeroed slices that are released together.
type arena[T any] struct{ used []T }

// least is the initial number of elements of an arena.
const least = 1 << 8

func (a *arena[T]) take(n int) []T {
	from := len(a.used)
	if from+n > cap(a.used) {
		// Slices from earlier calls keep their own array.
		a.used, from = make([]T, 0, max(2*cap(a.used), n, least)), 0
	}
	a.used = a.used[:from+n]
	return a.used[from : from+n : from+n]
}

// more returns the list with room for n more elements.
func (a *arena[T]) more(list []T, n int) []T {
	if cap(list)-len(list) >= n {
		return list
	}
	return append(a.take(2 * (len(list) + n))[:0], list...)
}

func (a *arena[T]) reset() {
	clear(a.used)
	a.used = a.used[:0]
}
