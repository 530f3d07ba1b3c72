package lab

import (
	"cmp"
	"math"
)

// A Trouble holds what a Plot makes wrong with a worker. It stays with the pod when its container
// restarts. The zero value is a healthy worker.
type Trouble struct {
	MemoryRate   float64 // bytes a second by which the container's memory grows or shrinks while it serves
	OutsideRSS   bool    // nothing of it is memory of the API server's process
	MemoryLimit  int64   // bytes; 0: the fleet's
	GPULeak      float64 // MiB a second by which its process grows on each of its GPUs
	Allocates    float64 // bytes of GPU memory beside the KV cache that its next step needs
	Slow         float64 // multiplies the time of a step; 0: 1
	Prefill      float64 // multiplies the time of prefill; 0: 1
	Unseen       bool    // its /metrics fail
	Unready      bool    // the API server shows it as not ready, so the gateway does not use it
	Unrouted     bool    // the gateway does not know it
	Refuses      float64 // added share of answers that refuse
	Empties      float64 // added share of answers without text
	Waits        string  // reason for which its container waits and does not start
	LoadError    string  // last words of every process, which ends while it loads
	CrashesAfter float64 // seconds that every process serves until it crashes; 0: it lives
	Keeps        int     // every so many ended requests, the KV blocks of one stay held; 0: none
	KeepsLong    bool    // blocks of every ended request of Workload.Long stay held
	Uncached     bool    // no prompt finds its prefix in the cache
}

// A GPUTrouble holds what a Plot makes wrong with a GPU.
type GPUTrouble struct {
	Foreign float64 // MiB that another process holds
	Busy    float64 // share of the time in which another process uses the tensor cores
	Clock   float64 // MHz that the clock does not exceed; 0: no limit
	Brake   bool    // a power brake of the hardware sets that limit, and the driver counts it
}

// A GatewayTrouble holds what a Plot makes wrong with the gateway.
type GatewayTrouble struct {
	Drops    float64 // share of the requests that it fails before a worker sees them
	DropCode string  // its error for them
	Unseen   bool    // its /metrics fail
	Pinned   string  // the pod that gets the requests of the first group, whatever its load
}

// The errors of llm-d's endpoint picker besides [GatewayNoEndpoint] that are its own.
const (
	GatewayInternal = "Internal"
	GatewayShed     = "InferencePoolResourceExhausted" // answered with 429
)

// drops decides whether the gateway fails a request before a worker sees it, and does so.
func (f *Fleet) drops(r *request) bool {
	g := &f.gateway
	if g.Drops == 0 || f.rng.Float64() >= g.Drops {
		return false
	}
	if g.DropCode == GatewayUpstream { // it was sent
		g.requests++
	}
	f.refused++
	g.turnAway(g.DropCode)
	f.retry(r)
	return true
}

// pinned returns the pod that must get a request, or "" if any may.
func (f *Fleet) pinned(r *request) string {
	if r.group != 0 {
		return ""
	}
	return f.gateway.Pinned
}

// memoryLimit returns the limit of a worker's container in bytes.
func (f *Fleet) memoryLimit(w *worker) int64 { return cmp.Or(w.MemoryLimit, f.cfg.MemoryLimit) }

// ail applies a worker's trouble to its phase.
func (f *Fleet) ail(w *worker) {
	switch {
	case w.phase == podLoading && w.Waits != "":
		w.phase = podPulling
	case w.phase == podPulling && w.Waits == "" && w.image != f.cfg.Kind.defaults().missing:
		w.start(f.now, f.loadTime())
	case w.phase == podReady && w.CrashesAfter > 0 && f.now >= w.until+w.CrashesAfter:
		f.event(w.name, "Error", "the process crashed")
		w.words = f.cfg.Kind.defaults().dead
		w.die(f, "Error", 139)
	}
}

// keep leaves the blocks of an ended request held, if the trouble is a leak.
func (e *engine) keep(r *request) {
	t := e.trouble
	e.ended++
	if t.Keeps > 0 && e.ended%t.Keeps == 0 || t.KeepsLong && r.long {
		e.kv.leaked += r.blocks
		r.blocks = 0
	}
}

// slowPrefill returns the seconds that a step with so many prefill tokens takes longer than usual.
func (e *engine) slowPrefill(tokens int) float64 {
	return max(0, e.trouble.Prefill-1) * e.cost.PerPrefillToken * float64(tokens)
}

// limit lowers the clock to the GPU's limit, and records the seconds of a brake.
func (g *gpu) limit(now float64) {
	if g.Clock == 0 || g.clock <= g.Clock {
		return
	}
	g.clock = g.Clock
	if n := len(g.slowed); g.Brake && (n == 0 || now-g.slowed[n-1] >= 1) {
		g.slowed = append(g.slowed, now)
	}
}

// freeMiB returns the free memory of the worker's fullest GPU.
func (w *worker) freeMiB() float64 {
	free := math.Inf(1)
	for _, g := range w.gpus {
		free = min(free, gpuMemoryMiB-g.usedMiB())
	}
	return free
}
