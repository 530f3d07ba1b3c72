package lab

import "paramedic/lab/machine"

// The faults of machines, their GPUs and their memory.
const (
	GPUThrottle   = "gpu_throttle"
	NodeFailure   = "node_failure"
	OOMKilled     = "oom_killed"
	CUDAOOM       = "cuda_oom"
	GPUMemoryLeak = "gpu_memory_leak"
)

var machineFaults = []string{GPUThrottle, NodeFailure, OOMKilled, CUDAOOM, GPUMemoryLeak}

// beginMachine starts a machine's fault at a worker.
func (f *Fleet) beginMachine(a *activeFault, w *worker) {
	switch a.Name {
	case GPUThrottle:
		if len(w.gpus) > 0 {
			a.gpu = w.gpus[0]
			a.gpu.Cooling = 8 * a.Severity
		}
	case NodeFailure:
		if w.node != nil {
			f.powerOff(w.node)
		}
	case OOMKilled:
		w.burst = 4 << 30 * a.Severity
	case GPUMemoryLeak:
		w.gpuLeak = 6 * a.Severity
	}
}

// outOfCUDA is PyTorch's log line before the engine's last one.
const outOfCUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.31 GiB. GPU 0 has a total " +
	"capacity of 79.65 GiB of which 4.14 GiB is free.\n"

// burstAfter is the time that a worker serves before its memory bursts, in seconds.
const burstAfter = 60.0

// killOutOfMemory ends a worker whose step needed more GPU memory than the KV cache and the leak
// leave.
func (f *Fleet) killOutOfMemory(w *worker) {
	if w.eng == nil || len(w.gpus) == 0 {
		return
	}
	for _, g := range w.gpus {
		g.Leaked += (w.gpuLeak + w.GPULeak) * tickEvery
	}
	asked := w.eng.TakeLogitBytes() + w.Allocates
	w.Allocates = 0
	if asked <= w.freeMiB()*(1<<20) {
		return
	}
	f.event(w.name, "Error", "CUDA out of memory: the engine core died")
	w.words = outOfCUDA + f.cfg.Kind.Defaults().Dead
	w.die(f, "Error", 1)
}

// powerOff ends a node and its pods.
func (f *Fleet) powerOff(n *machine.Node) {
	n.Down, n.SilentAt = true, f.now
	f.event("", "NodeDown", n.Name)
	for _, w := range f.workers {
		if w.node == n {
			f.abandon(w, false)
			w.eng, w.phase, w.until = nil, podLost, f.now+machine.Grace
		}
	}
}

// seenReady reports whether the API server shows the pod as ready.
func (w *worker) seenReady(now float64) bool {
	return w.phase == podReady && !w.Unready || w.phase == podLost && now < w.until
}
