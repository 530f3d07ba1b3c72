package machine

import "paramedic/lab/engine"

// A GPU holds the state of a GPU that DCGM exports.
type GPU struct {
	Trouble
	UUID  string
	Owner Owner // nil: it is free

	Leaked   float64 // MiB leaked since the engine's start
	Reserved float64 // share of memory that the engine reserved at its start
	Cooling  float64 // thermal resistance relative to a healthy GPU's
	Fault    int     // the Xid that every use of the GPU causes; 0: healthy

	index  int     // on its node
	util   float64 // percent
	tensor float64 // ratio of the time
	dram   float64
	power  float64 // W
	temp   float64 // °C
	clock  float64 // MHz
	energy float64 // mJ

	slowed []float64 // times of thermal throttling in the last 5 minutes

	xid  int // the last code; the gauge keeps it until the driver is reloaded
	xids []xid

	lastBusy, lastTensor float64
}

// A Trouble holds what a story makes wrong with a GPU. The zero value is a healthy one.
type Trouble struct {
	Foreign float64 // MiB that another process holds
	Busy    float64 // share of the time in which another process uses the tensor cores
	Clock   float64 // MHz that the clock does not exceed; 0: no limit
	Brake   bool    // a power brake of the hardware sets that limit, and the driver counts it
}

// An Owner is the pod that has a GPU.
type Owner interface {
	Name() string
	Engine() *engine.Engine // nil: its container runs none
}

// xid is one of the driver's reports.
type xid struct {
	code int
	at   float64
}

// Report records an error as the driver does. The gauge keeps the last code.
func (g *GPU) Report(code int, now float64) {
	g.xid = code
	g.xids = append(g.xids, xid{code, now})
}

// counted returns how often each code came in the exporter's window.
func (g *GPU) counted(now float64) map[int]float64 {
	out := map[int]float64{}
	for _, x := range g.xids {
		if now-x.at < xidWindow {
			out[x.code]++
		}
	}
	return out
}

const xidWindow = 300.0 // seconds, --xid-count-window-size

const memoryMiB = 81559 // H100 80GB

// spend moves seen towards the total by at most dt seconds, and returns the share of dt.
func spend(seen *float64, total, dt float64) float64 {
	if total < *seen {
		*seen = total // another engine
	}
	spent := min(dt, total-*seen)
	*seen += spent
	return spent / dt
}

// Observe updates the GPU's telemetry over the last dt seconds.
func (g *GPU) Observe(now, dt float64) {
	busy, tensor := 0.0, 0.0
	spinning := false
	if e := g.engine(); e != nil {
		steps, arithmetic := e.Busy()
		// The engine counts a step of several seconds at once.
		busy, tensor = spend(&g.lastBusy, steps, dt), spend(&g.lastTensor, arithmetic, dt)
		spinning = e.Spins()
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
	g.temp += (28 + g.power*0.062*g.Cooling - g.temp) * min(1, dt/30)
	g.govern(now)
	g.energy += g.power * dt * 1000
}

func (g *GPU) engine() *engine.Engine {
	if g.Owner == nil {
		return nil
	}
	return g.Owner.Engine()
}

// usedMiB returns FB_USED. Engines reserve their share at the start, busy or not.
func (g *GPU) usedMiB() float64 {
	if g.Reserved == 0 {
		return 4 + g.Foreign
	}
	return memoryMiB*min(0.985, g.Reserved+0.028) + g.Leaked + g.Foreign // 0.028: CUDA's own context
}

// FreeMiB returns the memory that no process holds.
func (g *GPU) FreeMiB() float64 { return memoryMiB - g.usedMiB() }

// Reset frees the memory of the owner's process, which has ended.
func (g *GPU) Reset() { g.Reserved, g.Leaked = 0, 0 }

// Words returns the log line that names the error of a GPU with a fault. A GPU that fell off the
// bus gives no error of its own until a process starts again.
func (g *GPU) Words(starting bool) string {
	switch xid := g.Fault; {
	case xid == 48, xid == 64, xid == 95:
		return "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
	case xid == 74:
		return "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution\n"
	case xid == 79 && starting:
		return "pynvml.NVMLError_GpuIsLost: GPU is lost\n"
	}
	return ""
}
