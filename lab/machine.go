package lab

// The faults of machines, their GPUs and their memory.
const (
	GPUThrottle = "gpu_throttle"
	NodeFailure = "node_failure"
	OOMKilled   = "oom_killed"
)

var machineFaults = []string{GPUThrottle, NodeFailure, OOMKilled}

// machineMetrics are what the rules on machines read.
var machineMetrics = []string{"kube_node_status_condition"}

// machine tells the scenario of a machine's fault.
func (s *Scenario) machine() {
	switch s.Name {
	case GPUThrottle:
		s.Story = "A fan dies: one GPU runs so hot that its clock falls to a quarter, and its worker with it; the other GPUs are cool."
		s.Config.Workload = Workload{Rate: 4.5}
	case NodeFailure:
		s.Story = "A machine loses its power, with two of the four workers on it; the others carry the load until replacements are up elsewhere."
	case OOMKilled:
		s.Story = "The memory limit of 32 GiB is far above the usual 18, until one worker is sent videos: decoding them takes it all within seconds, and the kernel kills it."
		s.Config.MemoryLimit = 32 << 30
	}
}

// strikeMachine starts a machine's fault, at a worker.
func (f *Fleet) strikeMachine(a *activeFault, w *worker) {
	switch a.Name {
	case GPUThrottle:
		if len(w.gpus) > 0 {
			w.gpus[0].cooling = 8 * a.Severity
		}
	case NodeFailure:
		if w.node != nil {
			f.powerOff(w.node)
		}
	case OOMKilled:
		w.burst = 4 << 30 * a.Severity
	}
}

// What the control plane does about a silent kubelet: after the grace period the node counts as not ready, and its pods too; they are
// evicted when the toleration that every pod has runs out. A pod on a dead node is never confirmed as gone.
const (
	nodeGrace      = 40.0 // seconds, --node-monitor-grace-period
	nodeToleration = 300.0
)

// burstAfter is how long a worker serves until the next burst of memory, in seconds.
const burstAfter = 60.0

// powerOff ends a node and everything on it.
func (f *Fleet) powerOff(n *node) {
	n.down, n.downAt = true, f.now
	f.event("", "NodeDown", n.name)
	for _, w := range f.workers {
		if w.node == n {
			f.abandon(w, false)
			w.eng, w.phase, w.until = nil, podLost, f.now+nodeGrace
		}
	}
}

// seenReady is what the API server says of the node: the last word of its kubelet, until the grace period is over.
func (n *node) seenReady(now float64) bool { return !n.down || now < n.downAt+nodeGrace }

// seenReady is what the API server says of the pod.
func (w *worker) seenReady(now float64) bool {
	return w.phase == podReady || w.phase == podLost && now < w.until
}
