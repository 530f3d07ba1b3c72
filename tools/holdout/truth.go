package main

import (
	"time"

	"paramedic/lab"
)

// A load records what the simulator knows of the workers' memory since the fault began.
type load struct {
	full        []time.Time            // looks at which admitted work had outgrown the KV cache of a worker
	preemptions map[string]float64     // by worker, at the last look
	kills       map[string][]time.Time // of each worker, at its memory limit
	restarts    map[string]int         // by worker, at the last look
}

// see adds the fleet's present state. Looks at the cache count only while alert rules are watched.
func (l *load) see(f *lab.Fleet, now time.Time, watched bool) {
	if l.kills == nil {
		l.preemptions, l.kills, l.restarts = map[string]float64{}, map[string][]time.Time{}, map[string]int{}
	}
	full := false
	for _, pod := range f.Pods() {
		preempts := pod.Preemptions > l.preemptions[pod.Name]
		full = full || pod.KVUsage > 0.95 && (preempts || pod.Waitlist > 0)
		if pod.Restarts > l.restarts[pod.Name] && pod.LastTermination == "OOMKilled" {
			l.kills[pod.Name] = append(l.kills[pod.Name], now)
		}
		l.preemptions[pod.Name], l.restarts[pod.Name] = pod.Preemptions, pod.Restarts
	}
	if full && watched {
		l.full = append(l.full, now)
	}
}

// enough is the number of looks with a full cache that make it exhausted: a minute of them.
const enough = 12

// exhausted reports whether the cache was full for a minute in all by a time.
func (l *load) exhausted(by time.Time) bool {
	return len(l.full) >= enough && !l.full[enough-1].After(by)
}

// killedAtOnce reports whether workers were killed by a time, each once, and all within an hour of
// the onset. By its definition a leak of host memory climbs for hours.
func (l *load) killedAtOnce(onset, by time.Time) bool {
	killed := false
	for _, at := range l.kills {
		switch {
		case at[0].After(by):
		case by.Sub(onset) >= time.Hour, len(at) > 1 && !at[1].After(by):
			return false
		default:
			killed = true
		}
	}
	return killed
}

// truth returns the cause of a played fault or decoy by its definition, as it was when the last
// verdict was given. The drawn strength decides whether longer answers fill the cache or only the
// batch, and whether memory grows for hours. Among many workers, an even pace may fill one of them.
func truth(fault string, l *load, onset, verdict time.Time) string {
	switch exhausted := l.exhausted(verdict); {
	case fault == lab.KVExhaustion && !exhausted:
		return lab.DecodeSaturation
	case (fault == lab.DecodeSaturation || fault == lab.FullCache) && exhausted:
		return lab.KVExhaustion
	case fault == lab.HostMemoryLeak && l.killedAtOnce(onset, verdict):
		return lab.OOMKilled
	}
	return fault
}
