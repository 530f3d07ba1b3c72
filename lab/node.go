package lab

import "fmt"

// node is a machine with GPUs.
type node struct {
	name     string
	gpus     []*gpu
	cordoned bool
	down     bool
	mute     bool    // its kubelet does not report
	silentAt float64 // since when it is down or mute
}

// gpu holds the state of a GPU that DCGM exports.
type gpu struct {
	GPUTrouble
	node  *node
	index int
	uuid  string
	owner *worker

	leaked   float64 // MiB leaked since the engine's start
	reserved float64 // share of memory that the engine reserved at its start
	util     float64 // percent
	tensor   float64 // ratio of the time
	dram     float64
	power    float64 // W
	temp     float64 // °C
	clock    float64 // MHz
	energy   float64 // mJ

	cooling float64   // thermal resistance relative to a healthy GPU's
	slowed  []float64 // times of thermal throttling in the last 5 minutes

	xid   int // the last code; the gauge keeps it until the driver is reloaded
	xids  []xid
	fault int // the Xid that every use of the GPU causes; 0: healthy

	lastBusy, lastTensor float64
}

// xid is one of the driver's reports.
type xid struct {
	code int
	at   float64
}

// report records an error as the driver does. The gauge keeps the last code.
func (g *gpu) report(code int, now float64) {
	g.xid = code
	g.xids = append(g.xids, xid{code, now})
}

// counted returns how often each code came in the exporter's window.
func (g *gpu) counted(now float64) map[int]float64 {
	out := map[int]float64{}
	for _, x := range g.xids {
		if now-x.at < xidWindow {
			out[x.code]++
		}
	}
	return out
}

const xidWindow = 300.0 // seconds, --xid-count-window-size

const gpuMemoryMiB = 81559 // H100 80GB

func newNode(i, gpus int, uuid func() string) *node {
	n := &node{name: fmt.Sprintf("gpu-node-%d", i+1)}
	for k := range gpus {
		n.gpus = append(n.gpus, &gpu{node: n, index: k, uuid: "GPU-" + uuid(), power: 72, temp: 31, clock: fullClock,
			cooling: 1})
	}
	return n
}

// free returns the node's first unused GPUs, or nil if too few are free or the node takes no pods.
func (n *node) free(want int) []*gpu {
	var out []*gpu
	for _, g := range n.gpus {
		if g.owner == nil && len(out) < want {
			out = append(out, g)
		}
	}
	if len(out) < want || n.cordoned || n.down || n.mute {
		return nil
	}
	return out
}

// spend moves seen towards the total by at most dt seconds, and returns the share of dt.
func spend(seen *float64, total, dt float64) float64 {
	if total < *seen {
		*seen = total // another engine
	}
	spent := min(dt, total-*seen)
	*seen += spent
	return spent / dt
}

// observe updates the GPU's telemetry over the last dt seconds.
func (g *gpu) observe(now, dt float64) {
	busy, tensor := 0.0, 0.0
	spinning := false
	if w := g.owner; w != nil && w.eng != nil {
		s := &w.eng.stats
		// The engine counts a step of several seconds at once.
		busy, tensor = spend(&g.lastBusy, s.busy, dt), spend(&g.lastTensor, s.tensor, dt)
		spinning = w.eng.hung && len(w.eng.running) > 0
	} else {
		g.lastBusy, g.lastTensor = 0, 0
	}
	busy, tensor = min(1, busy+g.Busy), min(1, tensor+g.Busy)
	const keep = 0.7
	g.tensor = keep*g.tensor + (1-keep)*tensor*0.62
	g.dram = keep*g.dram + (1-keep)*(busy-tensor)*0.72
	util, power := busy*100, 78+(busy*230+tensor*330)*g.clock/fullClock
	if spinning { // a collective that never completes keeps the SMs busy
		util, power = 100, 158
	}
	g.util = keep*g.util + (1-keep)*util
	g.power = keep*g.power + (1-keep)*power
	g.temp += (28 + g.power*0.062*g.cooling - g.temp) * min(1, dt/30)
	g.govern(now)
	g.energy += g.power * dt * 1000
}

// usedMiB returns FB_USED. Engines reserve their share at the start, busy or not.
func (g *gpu) usedMiB() float64 {
	if g.reserved == 0 {
		return 4 + g.Foreign
	}
	return gpuMemoryMiB*min(0.985, g.reserved+0.028) + g.leaked + g.Foreign // 0.028: CUDA's own context
}
