package diagnose

import (
	"sync"

	"paramedic/internal/arena"
	"paramedic/rules/catalog"
)

// A scratch is the scratch memory of one verdict.
type scratch struct {
	seen     arena.Arena[observation]
	unmet    arena.Arena[unobserved]
	evidence arena.Arena[*catalog.Evidence]
	ranked   arena.Arena[causeScore]
}

var weighings = sync.Pool{New: func() any { return new(scratch) }}

// release gives the memory of the verdict and of its view to the next one. Neither may be used
// afterwards.
func (v verdict) release() {
	v.view.Release()
	v.memory.seen.Reset()
	v.memory.unmet.Reset()
	v.memory.evidence.Reset()
	v.memory.ranked.Reset()
	weighings.Put(v.memory)
}
