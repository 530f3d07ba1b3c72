package main

import "paramedic/lab"

// A peak holds the highest load of a fleet since its fault began, as the simulator knows it.
type peak struct {
	cache     float64 // highest KV usage of a worker, 0 to 1
	waiting   int     // most waiting requests of a worker
	preempted bool
	before    float64 // preemptions before the fault
	begun     bool
}

// see adds the fleet's present state.
func (p *peak) see(f *lab.Fleet, faulty bool) {
	preemptions := 0.0
	for _, pod := range f.Pods() {
		preemptions += pod.Preemptions
		if faulty {
			p.cache, p.waiting = max(p.cache, pod.KVUsage), max(p.waiting, pod.Waitlist)
		}
	}
	if !p.begun {
		p.before, p.begun = preemptions, faulty
	}
	p.preempted = p.preempted || faulty && preemptions > p.before
}

// exhausted reports whether admitted work outgrew the KV cache of a worker.
func (p *peak) exhausted() bool { return p.cache > 0.95 && (p.preempted || p.waiting > 0) }

// truth returns the cause of a played fault by its definition. The drawn strength decides whether
// longer answers fill the cache or only the batch.
func truth(fault string, p peak) string {
	switch {
	case fault == lab.KVExhaustion && !p.exhausted():
		return lab.DecodeSaturation
	case fault == lab.DecodeSaturation && p.exhausted():
		return lab.KVExhaustion
	}
	return fault
}
