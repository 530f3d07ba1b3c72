package lab

// The faults of machines, their GPUs and their memory.
const (
	GPUThrottle = "gpu_throttle"
	NodeFailure = "node_failure"
	OOMKilled   = "oom_killed"
	CUDAOOM     = "cuda_oom"

	GPUMemoryLeak = "gpu_memory_leak"
)

var machineFaults = []string{GPUThrottle, NodeFailure, OOMKilled, CUDAOOM, GPUMemoryLeak}

// machine sets the scenario of a machine's fault.
func (s *Scenario) machine() {
	switch s.Name {
	case GPUThrottle:
		s.Story = "A fan fails. One GPU gets so hot that its clock falls to a quarter and slows its worker. The " +
			"other GPUs are cool."
		s.Config.Workload = Workload{Rate: 4.5}
	case NodeFailure:
		s.Story = "A machine with two of the four workers loses power. The others carry the load until " +
			"replacements start elsewhere."
	case OOMKilled:
		s.Story = "Workers use 18 of 32 GiB of memory. Then one worker gets videos: decoding fills the memory " +
			"within seconds, and the kernel kills the worker."
		s.Config.MemoryLimit = 32 << 30
	case CUDAOOM:
		s.Story = "gpu_memory_utilization is 0.92 with 8,192 batched tokens. A few clients request the " +
			"probabilities of long prompts, and the logits do not fit."
		s.Config.Engine.GPUMemoryUtilization, s.Config.Engine.MaxNumBatchedTokens = 0.92, 8192
	case GPUMemoryLeak:
		s.Story = "One engine takes a little more GPU memory with every request and never frees it. Only 6 GiB " +
			"are free beside its KV cache."
	}
}

// beginMachine starts a machine's fault at a worker.
func (f *Fleet) beginMachine(a *activeFault, w *worker) {
	switch a.Name {
	case GPUThrottle:
		if len(w.gpus) > 0 {
			a.gpu = w.gpus[0]
			a.gpu.cooling = 8 * a.Severity
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

// The control plane's reaction to a silent kubelet. After the grace period the node and its pods
// count as not ready. The pods are evicted when every pod's default toleration ends. The deletion
// of a pod on a dead node is never confirmed.
const (
	nodeGrace      = 40.0 // seconds, --node-monitor-grace-period
	nodeToleration = 300.0
)

// outOfCUDA is PyTorch's log line before the engine's last one.
const outOfCUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.31 GiB. GPU 0 has a total " +
	"capacity of 79.65 GiB of which 4.14 GiB is free.\n"

// burstAfter is the time that a worker serves before its memory bursts, in seconds.
const burstAfter = 60.0

// logitBytes is the memory of one prompt token with prompt_logprobs: the logits of Llama 3's
// vocabulary and their logarithms, both in 32 bits. vLLM's profile run, which sizes the KV cache,
// does not count them.
const logitBytes = 2 * 4 * 128256

// killOutOfMemory ends a worker whose step needed more GPU memory than the KV cache and the leak
// leave.
func (f *Fleet) killOutOfMemory(w *worker) {
	if w.eng == nil || len(w.gpus) == 0 {
		return
	}
	for _, g := range w.gpus {
		g.leaked += (w.gpuLeak + w.GPULeak) * tickEvery
	}
	asked := float64(w.eng.scored)*logitBytes + w.Allocates
	w.eng.scored, w.Allocates = 0, 0
	if asked <= w.freeMiB()*(1<<20) {
		return
	}
	f.event(w.name, "Error", "CUDA out of memory: the engine core died")
	w.words = outOfCUDA + f.cfg.Kind.defaults().dead
	w.die(f, "Error", 1)
}

// powerOff ends a node and its pods.
func (f *Fleet) powerOff(n *node) {
	n.down, n.silentAt = true, f.now
	f.event("", "NodeDown", n.name)
	for _, w := range f.workers {
		if w.node == n {
			f.abandon(w, false)
			w.eng, w.phase, w.until = nil, podLost, f.now+nodeGrace
		}
	}
}

// seenReady reports whether the API server shows the node as ready: until the grace period ends it
// shows the last report of its kubelet.
func (n *node) seenReady(now float64) bool { return !n.down && !n.mute || now < n.silentAt+nodeGrace }

// seenReady reports whether the API server shows the pod as ready.
func (w *worker) seenReady(now float64) bool {
	return w.phase == podReady && !w.Unready || w.phase == podLost && now < w.until
}
