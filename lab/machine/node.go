package machine

import "fmt"

// The control plane's reaction to a silent kubelet, in seconds. After the grace period the node and
// its pods count as not ready. The pods are evicted when every pod's default toleration ends. The
// deletion of a pod on a dead node is never confirmed.
const (
	Grace      = 40.0 // --node-monitor-grace-period
	Toleration = 300.0
)

// A Node is a machine with GPUs.
type Node struct {
	Name     string
	GPUs     []*GPU
	Cordoned bool    // it takes no new pods
	Down     bool    // it has no power or no network
	Mute     bool    // its kubelet does not report
	SilentAt float64 // since when it is down or mute, in seconds since the fleet's start
}

// NewNode returns the i-th node of a cluster, counted from 0, with idle GPUs. It names each GPU by
// the next UUID.
func NewNode(i, gpus int, uuid func() string) *Node {
	n := &Node{Name: fmt.Sprintf("gpu-node-%d", i+1)}
	for k := range gpus {
		n.GPUs = append(n.GPUs, &GPU{index: k, UUID: "GPU-" + uuid(), power: 72, temp: 31, clock: fullClock,
			Cooling: 1})
	}
	return n
}

// Free returns the node's first unused GPUs, or nil if too few are free or the node takes no pods.
func (n *Node) Free(want int) []*GPU {
	var out []*GPU
	for _, g := range n.GPUs {
		if g.Owner == nil && len(out) < want {
			out = append(out, g)
		}
	}
	if len(out) < want || n.Cordoned || n.Down || n.Mute {
		return nil
	}
	return out
}

// SeenReady reports whether the API server shows the node as ready: until the grace period ends it
// shows the last report of its kubelet.
func (n *Node) SeenReady(now float64) bool { return !n.Down && !n.Mute || now < n.SilentAt+Grace }
