package evidence

import (
	"sync"

	"paramedic/internal/arena"
	"paramedic/rules/condition"
	"paramedic/state"
)

// scratch holds the allocations of one view, for reuse by the next. Otherwise each diagnosis would
// leave a third of a megabyte to the garbage collector.
type scratch struct {
	readings arena.Arena[condition.Reading]
	samples  arena.Arena[int32]
	groups   arena.Arena[Subject]
	asked    arena.Arena[*Answers]
	answers  arena.Arena[Answers]
	hits     arena.Arena[*Subject]
	wholes   arena.Arena[condition.Aggregate]
	points   arena.Arena[state.Point]
	lines    arena.Arena[[]state.Point]
	series   arena.Arena[Series]
	names    arena.Arena[string]
	keys     []string // a view's keys
	ids      arena.Arena[int]
	byKey    map[string]int     // a view's ids
	bySignal map[string]*Series // a view's signals
	gpusOf   map[int][]int      // a view's gpusOf
	missing  map[string]string  // a view's missing
}

var memories = sync.Pool{New: func() any {
	return &scratch{byKey: map[string]int{}, bySignal: map[string]*Series{}, gpusOf: map[int][]int{},
		missing: map[string]string{}}
}}

// GrowNames returns the list with room for n more names, from the view's scratch memory.
func (v *View) GrowNames(list []string, n int) []string { return v.memory.names.Grow(list, n) }

// Release recycles the view's memory. Afterwards neither the view nor its results may be used.
func (v *View) Release() {
	v.memory.readings.Reset()
	v.memory.samples.Reset()
	v.memory.groups.Reset()
	v.memory.asked.Reset()
	v.memory.answers.Reset()
	v.memory.hits.Reset()
	v.memory.wholes.Reset()
	v.memory.points.Reset()
	v.memory.lines.Reset()
	v.memory.series.Reset()
	v.memory.names.Reset()
	v.memory.ids.Reset()
	clear(v.keys)
	v.memory.keys = v.keys[:0]
	clear(v.memory.byKey)
	clear(v.memory.bySignal)
	clear(v.memory.gpusOf)
	clear(v.memory.missing)
	memories.Put(v.memory)
	v.memory = nil
}
