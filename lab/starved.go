package lab

// The host's part of a step, while the GPU waits: scheduling, sampling, detokenizing, streaming.
// With enough CPU most of it is hidden, and the rest is in Cost.Base and Cost.PerSequence. A
// container with too low a CPU limit exceeds its CFS quota and sleeps until the next period of 100
// ms. A step then loses most of a period, and a larger batch more.
const (
	hostGap     = 0.13   // seconds per step at severity 1: about a period
	hostGapSeq  = 0.0004 // seconds per sequence
	cfsPeriods  = 10     // per second
	cpuLimit    = 16     // cores of a container before the fault
	cpuLimitLow = 1
)

// starve applies the CPU limit to a worker's engine and to cAdvisor's counters.
func (f *Fleet) starve(w *worker) {
	if w.phase != podReady || w.eng == nil {
		return
	}
	w.eng.host = f.starved
	w.cpuPeriods += cfsPeriods * tickEvery
	if w.load() > 0 {
		w.cpuThrottled += cfsPeriods * tickEvery * max(0.004, min(0.93, 0.93*f.starved))
	}
}

// gap returns the seconds that the GPU waits for the host before a step.
func (e *engine) gap(sequences int) float64 {
	return e.host * (hostGap + hostGapSeq*float64(sequences))
}

// cpuLimit returns the containers' limit in cores.
func (f *Fleet) cpuLimit() float64 {
	if f.starved > 0 {
		return cpuLimitLow
	}
	return cpuLimit
}
