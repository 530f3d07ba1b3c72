package lab

import (
	"testing"
	"time"
)

// outcomes are how many requests the pool has answered whole, and how many were aborted.
func outcomes(f *Fleet) (whole, aborted float64) {
	for _, w := range f.workers {
		whole += w.eng.stats.finished[finishedStop] + w.eng.stats.finished[finishedLength]
		aborted += w.eng.stats.finished[finishedAbort]
	}
	return whole, aborted
}

// Each fault of demand shows what sets it apart from its look-alikes, and not what the look-alike
// shows.
func TestDemandShowsItsEvidence(t *testing.T) {
	for name, proves := range map[string]func(e evidence, whole, aborted float64) bool{
		TrafficSurge: func(e evidence, whole, _ float64) bool { // more is answered than ever, and still not enough
			return e.peer.KVUsage > .9 && float64(e.hot.Running) < 1.5*float64(e.peer.Running) && e.preemptions > 1 && whole > 1.5*2.3*120 && e.promptP95 < 4000
		},
		RetryStorm: func(e evidence, whole, aborted float64) bool {
			return aborted > 4*whole && whole < 0.5*3.4*120 && e.hot.KVUsage < .9 && e.promptP95 < 4000
		},
		LongContextBurst: func(e evidence, _, _ float64) bool {
			return e.promptP95 > 10000 && e.prefill > 2 && e.ttft > 5 && e.itl > .021 && e.hot.KVUsage > .6
		},
		DecodeSaturation: func(e evidence, whole, aborted float64) bool {
			return e.itl > .03 && e.ttft < 1 && e.hot.Waitlist == 0 && e.hot.KVUsage < .7 && e.preemptions == 0 && aborted < 0.05*whole
		},
		ClientCancellations: func(e evidence, whole, aborted float64) bool {
			return aborted > 3*whole && e.ttft < 1 && e.itl < .02 && e.hot.Waitlist == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, e := observe(t, name, 13*time.Minute)
			whole, aborted := outcomes(f)
			f.Advance(f.Start().Add(15 * time.Minute))
			wholeLater, abortedLater := outcomes(f)
			if w, a := wholeLater-whole, abortedLater-aborted; !proves(e, w, a) {
				t.Errorf("in two minutes %.0f requests were answered whole and %.0f aborted; %+v", w, a, e)
			}
		})
	}
}

// The workers of a retry storm have nothing to recover from: they answer as before soon after the
// repeats end.
func TestARetryStormEndsWithItsRepeats(t *testing.T) {
	f, _ := observe(t, RetryStorm, 13*time.Minute)
	before, _ := outcomes(f)
	f.Advance(f.Start().Add(15 * time.Minute))
	during, _ := outcomes(f)
	f.faults = nil // the clients' release is rolled back
	f.Advance(f.Start().Add(20 * time.Minute))
	mended, _ := outcomes(f)
	f.Advance(f.Start().Add(22 * time.Minute))
	after, _ := outcomes(f)
	if storm, calm := during-before, after-mended; calm < 3*storm+100 {
		t.Errorf("%.0f answers in two minutes of the storm, %.0f after it", storm, calm)
	}
}
