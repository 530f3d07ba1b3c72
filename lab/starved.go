package lab

// The host's part of a step. The GPU waits meanwhile: the scheduler picks the next batch, tokens
// are sampled, detokenized and streamed. An engine with enough CPU hides most of it (it is in
// Cost.Base and Cost.PerSequence); one whose container is held to a fraction of the cores that it
// wants does not. Under CFS a process that has used up its quota sleeps until the next period of
// 100 ms, so that a step that needs little CPU loses most of a period, and a larger batch more.
const (
	hostGap     = 0.13   // seconds a step at severity 1: most of a period, and now and then the next
	hostGapSeq  = 0.0004 // and so much for every sequence
	cfsPeriods  = 10     // a second
	cpuLimit    = 16     // cores of a container, while nobody lowers it
	cpuLimitLow = 1
)

// starve applies the CPU limit to a worker: the steps of its engine, and what cAdvisor counts.
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

// gap is how long the GPU waits for the host before a step of so many sequences.
func (e *engine) gap(sequences int) float64 {
	return e.host * (hostGap + hostGapSeq*float64(sequences))
}

// cpuLimit is the containers' limit in cores.
func (f *Fleet) cpuLimit() float64 {
	if f.starved > 0 {
		return cpuLimitLow
	}
	return cpuLimit
}
