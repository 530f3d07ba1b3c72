package main

import (
	"time"

	"paramedic/lab"
)

// A load records when admitted work outgrew the KV cache of a worker, as the simulator knows it.
type load struct {
	full        []time.Time
	preemptions map[string]float64 // by worker, at the last look
}

// see adds the fleet's present state.
func (l *load) see(f *lab.Fleet, now time.Time) {
	if l.preemptions == nil {
		l.preemptions = map[string]float64{}
	}
	full := false
	for _, pod := range f.Pods() {
		preempts := pod.Preemptions > l.preemptions[pod.Name]
		l.preemptions[pod.Name] = pod.Preemptions
		full = full || pod.KVUsage > 0.95 && (preempts || pod.Waitlist > 0)
	}
	if full {
		l.full = append(l.full, now)
	}
}

// enough is the number of looks with a full cache that make it exhausted: a minute of them.
const enough = 12

// exhausted reports whether the cache was full for a minute in all by a time.
func (l *load) exhausted(by time.Time) bool {
	return len(l.full) >= enough && !l.full[enough-1].After(by)
}

// truth returns the cause of a played fault by its definition, as it was when the last verdict was
// given. The drawn strength decides whether longer answers fill the cache or only the batch.
func truth(fault string, l *load, verdict time.Time) string {
	switch exhausted := l.exhausted(verdict); {
	case fault == lab.KVExhaustion && !exhausted:
		return lab.DecodeSaturation
	case fault == lab.DecodeSaturation && exhausted:
		return lab.KVExhaustion
	}
	return fault
}
