package service

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryEvery is the time between two looks at the heap.
	memoryEvery = 10 * time.Second
	// memoryWorth is the least memory to give back, beyond a quarter of the live heap.
	memoryWorth = 32 << 20
)

// keepMemory makes the garbage collector work harder near the container's memory limit (90 % of it,
// or GOMEMLIMIT), before the kernel kills the process. Until the context ends, it gives memory back
// after storms.
func keepMemory(ctx context.Context, log *slog.Logger) {
	switch limit, err := memlimit.Set(); {
	case err != nil:
		log.WarnContext(ctx, "the memory limit cannot be read: set GOMEMLIMIT", "err", err)
	case limit < math.MaxInt64:
		log.InfoContext(ctx, "the memory is limited", "bytes", limit)
	}
	go (&memoryKeeper{}).run(ctx)
}

// A memoryKeeper gives memory back to the system after a storm. Go's runtime keeps as much as the
// heap had at its highest, because it expects the next collection there.
type memoryKeeper struct{ allocated uint64 }

// run looks at the heap until the context ends.
func (m *memoryKeeper) run(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look()
		}
	}
}

// look gives memory back if there is enough and the process is quiet: since the last look it
// allocated less than half of the live heap. It returns whether it did. What is free beside live
// objects in their spans cannot go back, and does not count.
func (m *memoryKeeper) look() bool {
	samples := []gometrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	gometrics.Read(samples)
	allocated, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	objects, free := samples[2].Value.Uint64(), samples[3].Value.Uint64()
	quiet := allocated-m.allocated < live/2
	m.allocated = allocated
	if !quiet || max(objects, live)-live+free < live/4+memoryWorth {
		return false
	}
	runtime.GC() // FreeOSMemory collects once, and pools keep their buffers for two collections
	debug.FreeOSMemory()
	return true
}
