package rules

import "sync"

// memory is what a view fills and nothing outlives: diagnoses follow each other, and would otherwise leave a third of a megabyte each to
// the garbage collector.
type memory struct {
	readings arena[reading]
	samples  arena[int32]
	groups   arena[group]
	asked    arena[*answers]
	answers  arena[answers]
	hits     arena[*group]
	wholes   arena[whole]
	seen     arena[seen]
}

var memories = sync.Pool{New: func() any { return &memory{} }}

// release gives the view's memory to the next one. The view, and whatever it found, must not be asked afterwards.
func (v *view) release() {
	v.memory.readings.reset()
	v.memory.samples.reset()
	v.memory.groups.reset()
	v.memory.asked.reset()
	v.memory.answers.reset()
	v.memory.hits.reset()
	v.memory.wholes.reset()
	v.memory.seen.reset()
	memories.Put(v.memory)
	v.memory = nil
}

// An arena hands out slices of zeroes that are given back together.
type arena[T any] struct{ used []T }

// least is how many elements an arena begins with.
const least = 1 << 8

func (a *arena[T]) take(n int) []T {
	from := len(a.used)
	if from+n > cap(a.used) {
		// What was taken before keeps its own memory.
		a.used, from = make([]T, 0, max(2*cap(a.used), n, least)), 0
	}
	a.used = a.used[:from+n]
	return a.used[from : from+n : from+n]
}

func (a *arena[T]) reset() {
	clear(a.used)
	a.used = a.used[:0]
}
