package lab

import (
	"testing"
	"time"
)

// outcomes counts the requests that the pool has answered whole, and those that were aborted.
func outcomes(f *Fleet) (whole, aborted float64) {
	for _, w := range f.workers {
		whole += w.eng.stats.finished[finishedStop] + w.eng.stats.finished[finishedLength]
		aborted += w.eng.stats.finished[finishedAbort]
	}
	return whole, aborted
}

// The workers of a retry storm are healthy: soon after the retries end they answer as before.
func TestRetryStormEndsWithItsRepeats(t *testing.T) {
	f := scenarioAt(t, RetryStorm, 7, 13*time.Minute)
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
