package lab

// coldLoad is how long a worker loads its model from storage that is cold, in seconds.
const coldLoad = 600

// loadTime is how long a worker that starts now loads its model.
func (f *Fleet) loadTime() float64 {
	if f.slowLoad > 0 {
		return f.slowLoad
	}
	return f.cfg.ColdStart.Seconds()
}

// replaceHalf ends half of the workers, drained as an upgrade of their machines does it, and what
// replaces them loads its model from where nobody has cached it.
func (f *Fleet) replaceHalf(severity float64) {
	f.slowLoad = coldLoad * severity
	for _, w := range f.workers[len(f.workers)-len(f.workers)/2:] {
		f.terminate(w, "its machine is replaced")
	}
}
