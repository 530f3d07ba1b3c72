package rules

import (
	"sync"

	"paramedic/internal/arena"
)

// A weighing is the scratch memory of one verdict.
type weighing struct {
	seen     arena.Arena[seen]
	unmet    arena.Arena[unmet]
	evidence arena.Arena[*Evidence]
	ranked   arena.Arena[weighed]
	names    arena.Arena[string]
}

var weighings = sync.Pool{New: func() any { return new(weighing) }}

// release gives the memory of the verdict and of its view to the next one. Neither may be used
// afterwards.
func (v verdict) release() {
	v.view.release()
	v.memory.seen.Reset()
	v.memory.unmet.Reset()
	v.memory.evidence.Reset()
	v.memory.ranked.Reset()
	v.memory.names.Reset()
	weighings.Put(v.memory)
}
