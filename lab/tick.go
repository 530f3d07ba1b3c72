package lab

import (
	"paramedic/lab/engine"
	"paramedic/lab/machine"
)

// tick updates everything that is slower than an engine step.
func (f *Fleet) tick() {
	f.applyFaults()
	if f.mix.RateAt(f.now) != f.rate {
		f.redraw()
	}
	for _, w := range f.workers {
		f.cancelAbandoned(w)
		f.grow(w)
		f.starve(w)
		f.killOutOfMemory(w)
		f.broken(w)
		f.refuseModel(w)
		f.ail(w)
		f.advance(w)
	}
	f.reconcile()
	for _, n := range f.nodes {
		for _, g := range n.GPUs {
			g.Observe(f.now, tickEvery)
		}
	}
	for _, w := range f.workers {
		if w.eng != nil {
			w.eng.Slow = w.pace()
			w.eng.Tick(f.now)
		}
	}
}

// cancelAbandoned cancels the requests whose clients have hung up.
func (f *Fleet) cancelAbandoned(w *worker) {
	if w.eng == nil {
		return
	}
	w.eng.Cancel(f.now, func(r *engine.Request) {
		if r.CancelAt == 0 {
			f.retry(r)
		}
	})
}

// grow increases a worker's host memory by its leak and its burst, up to the container's limit.
func (f *Fleet) grow(w *worker) {
	limit := float64(f.memoryLimit(w))
	serves := w.phase == podReady
	if !serves && (w.phase != podLoading || f.now-w.started < crashLoading || w.memory < limit) {
		return
	}
	if w.leakRate > 0 {
		w.memory += w.leakRate * tickEvery
		w.rss += w.leakRate * tickEvery * 0.4
	}
	if w.memory += w.MemoryRate * tickEvery; !w.OutsideRSS {
		w.rss += w.MemoryRate * tickEvery * 0.4
	}
	if w.burst > 0 && f.now >= w.until+burstAfter { // until holds the time at which the model was loaded
		w.memory += w.burst * tickEvery
	}
	if w.memory >= limit {
		f.event(w.name, "OOMKilled", "the container reached its memory limit")
		w.die(f, "OOMKilled", 137)
	}
}

const (
	fatalAfter   = 25.0 // seconds from the first CUDA error until the engine dies
	crashLoading = 20.0 // seconds from a worker's start until it uses the bad GPU
)

// broken makes a worker on a faulty GPU fail: first requests fail, then the engine core dies, and
// every restart fails.
func (f *Fleet) broken(w *worker) {
	var bad *machine.GPU
	for _, g := range w.gpus {
		if g.Fault != 0 {
			bad = g
		}
	}
	if bad == nil {
		return
	}
	switch {
	case w.phase == podReady && w.failing == 0:
		w.failing = f.now
		w.eng.Hung = true
	case w.phase == podReady && f.now-w.failing > fatalAfter,
		w.phase == podLoading && f.now-w.started > crashLoading:
		f.event(w.name, "Error", "CUDA error: the engine core died")
		w.words = bad.Words(w.phase == podLoading) + f.cfg.Kind.Defaults().Dead
		w.die(f, "Error", 1)
	}
}

// advance moves a pod to its next phase if that is due.
func (f *Fleet) advance(w *worker) {
	switch {
	case w.phase == podLost:
		if f.now >= w.until+machine.Toleration {
			f.terminate(w, "its node is unreachable")
		}
	case w.leaving && (w.phase != podReady || w.Load() == 0 || f.now >= w.leaveBy):
		f.abandon(w, w.phase == podReady)
		f.remove(w)
	case w.phase == podPending:
		f.schedule(w)
	case w.phase == podLoading && f.now >= w.until:
		w.serve(f)
		f.event(w.name, "Ready", "the model is loaded")
	case w.phase == podBackOff && f.now >= w.until:
		w.start(f.now, f.loadTime())
	}
}

func (f *Fleet) event(pod, kind, text string) {
	f.events = append(f.events, Event{At: f.at(f.now), Pod: pod, Kind: kind, Text: text})
	if len(f.events) > 1000 {
		f.events = f.events[500:]
	}
}

// Events returns the fleet's last events, oldest first.
func (f *Fleet) Events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Event(nil), f.events...)
}
