package lab

import (
	"cmp"
	"math"

	"paramedic/lab/engine"
)

// A Trouble holds what a Plot makes wrong with a worker. It stays with the pod when its container
// restarts. The zero value is a healthy worker.
type Trouble struct {
	engine.Trouble
	MemoryRate   float64 // bytes a second by which the container's memory grows or shrinks while it serves
	OutsideRSS   bool    // nothing of it is memory of the API server's process
	MemoryLimit  int64   // bytes; 0: the fleet's
	GPULeak      float64 // MiB a second by which its process grows on each of its GPUs
	Allocates    float64 // bytes of GPU memory beside the KV cache that its next step needs
	Slow         float64 // multiplies the time of a step; 0: 1
	Unseen       bool    // its /metrics fail
	Unready      bool    // the API server shows it as not ready, so the gateway does not use it
	Unrouted     bool    // the gateway does not know it
	Refuses      float64 // added share of answers that refuse
	Empties      float64 // added share of answers without text
	Waits        string  // reason for which its container waits and does not start
	LoadError    string  // last words of every process, which ends while it loads
	CrashesAfter float64 // seconds that every process serves until it crashes; 0: it lives
}

// pinned returns the pod that must get a request, or "" if any may.
func (f *Fleet) pinned(r *engine.Request) string {
	if r.Group != 0 {
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
	case w.phase == podPulling && w.Waits == "" && w.image != f.cfg.Kind.Defaults().Missing:
		w.start(f.now, f.loadTime())
	case w.phase == podReady && w.CrashesAfter > 0 && f.now >= w.until+w.CrashesAfter:
		f.event(w.name, "Error", "the process crashed")
		w.words = f.cfg.Kind.Defaults().Dead
		w.die(f, "Error", 139)
	}
}

// freeMiB returns the free memory of the worker's fullest GPU.
func (w *worker) freeMiB() float64 {
	free := math.Inf(1)
	for _, g := range w.gpus {
		free = min(free, g.FreeMiB())
	}
	return free
}
