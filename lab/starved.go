package lab

// A container with too low a CPU limit exceeds its CFS quota and sleeps until the next period of
// 100 ms.
const (
	cfsPeriods  = 10 // per second
	cpuLimit    = 16 // cores of a container before the fault
	cpuLimitLow = 1
)

// starve applies the CPU limit to a worker's engine and to cAdvisor's counters.
func (f *Fleet) starve(w *worker) {
	if w.phase != podReady || w.eng == nil {
		return
	}
	w.eng.Host = f.starved
	w.cpuPeriods += cfsPeriods * tickEvery
	if w.Load() > 0 {
		w.cpuThrottled += cfsPeriods * tickEvery * max(0.004, min(0.93, 0.93*f.starved))
	}
}

// cpuLimit returns the containers' limit in cores.
func (f *Fleet) cpuLimit() float64 {
	if f.starved > 0 {
		return cpuLimitLow
	}
	return cpuLimit
}
