package lab

// coldLoad is the time that a worker takes to load its model from cold storage, in seconds.
const coldLoad = 600

// loadTime returns the seconds that a worker which starts now takes to load its model.
func (f *Fleet) loadTime() float64 {
	if f.slowLoad > 0 {
		return f.slowLoad
	}
	return f.cfg.ColdStart.Seconds()
}

// replaceHalf drains and ends half of the workers, as an upgrade of their machines does. Their
// replacements load the model from cold storage.
func (f *Fleet) replaceHalf(severity float64) {
	f.slowLoad = coldLoad * severity
	for _, w := range f.workers[len(f.workers)-len(f.workers)/2:] {
		f.terminate(w, "its machine is replaced")
	}
}
