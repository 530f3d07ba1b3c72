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
	// looksAfter is the number of quiet looks after a storm that give memory back, even if it seems
	// to be in use. The NATS server keeps the buffers of its last writes for ten seconds.
	looksAfter = 2
	// A heap is collected when it has twice its live bytes, but not before it has grown by the
	// room: mostRoom, or the memory limit divided by roomDivisor if that is less. A process with
	// few live objects would otherwise collect them many times a second in a storm. More room costs
	// more than it saves, because the first use of each page is slow. 192 MB was chosen with
	// tools/bars: with less, webhooks waited longer, and with 256 MB triage was slower.
	mostRoom    = 192 << 20
	roomDivisor = 8
)

// limitMemory makes the garbage collector work harder near the container's memory limit (90 % of
// it, or GOMEMLIMIT), before the kernel kills the process.
func limitMemory(ctx context.Context, log *slog.Logger) {
	limit, err := memlimit.Set()
	switch {
	case err != nil:
		log.WarnContext(ctx, "the memory limit cannot be read: set GOMEMLIMIT", "err", err)
	case limit < math.MaxInt64:
		log.InfoContext(ctx, "the memory is limited", "bytes", limit)
	}
}

// keepMemory makes the garbage collector work less while the heap is small. Until the context ends,
// it gives memory back after storms. Call it when rules, templates and clients are made. They stay,
// and with few collections they would lie between garbage and keep its memory: 25 MB of an idle
// bot.
func keepMemory(ctx context.Context) {
	keepRoom(ctx, uint64(min(mostRoom, debug.SetMemoryLimit(-1)/roomDivisor)))
	go (&memoryKeeper{}).run(ctx)
}

// keepRoom raises GOGC after each collection so far that the heap may grow by the room, until the
// context ends. With GOGC=off it does nothing.
func keepRoom(ctx context.Context, room uint64) {
	usual := debug.SetGCPercent(-1)
	debug.SetGCPercent(usual)
	if usual < 0 {
		return
	}
	var await func()
	await = func() {
		runtime.AddCleanup(new([64]byte), func(struct{}) { // a collection has found it
			if ctx.Err() != nil {
				debug.SetGCPercent(usual)
				return
			}
			debug.SetGCPercent(percentFor(usual, room))
			await()
		}, struct{}{})
	}
	await()
}

// percentFor returns the GOGC at which the next collection comes after the heap has grown by the
// room, or the usual one if that comes later.
func percentFor(usual int, room uint64) int {
	counted := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	gometrics.Read(counted)
	bytes := uint64(1 << 20)
	for _, s := range counted { // GOGC is a percentage of their sum
		bytes += s.Value.Uint64()
	}
	return max(usual, int(room*100/bytes)) //nolint:gosec // at most mostRoom * 100 / 1 MB
}

// A memoryKeeper gives memory back to the system after a storm. Go's runtime keeps as much as the
// heap had at its highest, because it expects the next collection there.
type memoryKeeper struct {
	allocated uint64
	after     int // looks that remain after the last storm
}

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

// look gives memory back if the process is quiet, and if a storm has just ended or enough is free.
// Quiet means that it allocated less than half of the live heap, or than memoryWorth, since the
// last look. It returns whether it gave memory back. What is free beside live objects in their
// spans cannot go back, and does not count.
func (m *memoryKeeper) look() bool {
	samples := []gometrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	gometrics.Read(samples)
	allocated, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	objects, free := samples[2].Value.Uint64(), samples[3].Value.Uint64()
	quiet := allocated-m.allocated < max(live/2, memoryWorth)
	m.allocated = allocated
	if !quiet {
		m.after = looksAfter
		return false
	}
	if m.after == 0 && max(objects, live)-live+free < live/4+memoryWorth {
		return false
	}
	m.after = max(0, m.after-1)
	runtime.GC() // FreeOSMemory collects once, and pools keep their buffers for two collections
	debug.FreeOSMemory()
	return true
}
