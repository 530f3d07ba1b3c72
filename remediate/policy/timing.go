package policy

import (
	"cmp"
	"fmt"
	"time"
)

// Timing holds the waits of a run. Zero takes the default.
type Timing struct {
	Settle   time.Duration // after the change is live, before samples count; 2m
	Window   time.Duration // of verification; 10m
	Interval time.Duration // between samples; 30s
	Samples  int           // fewest for a verdict; 10
	Drain    time.Duration // longest wait until a worker is idle; 10m
	Blocked  time.Duration // longest wait for a disruption budget, and for a hold that names no end; 15m
	Rollout  time.Duration // longest wait for a rollout to progress, or for a replacement; 30m
	Poll     time.Duration // between looks while waiting; 10s
	Stale    time.Duration // an intent that was not written for this time is cancelled; 10m
	Replan   time.Duration // between plans while a remedy is denied, and between looks while a run is held; 5m
}

// OrDefaults returns the times, with the default for each that is zero.
func (t Timing) OrDefaults() Timing {
	return Timing{
		Settle: cmp.Or(t.Settle, 2*time.Minute), Window: cmp.Or(t.Window, 10*time.Minute),
		Interval: cmp.Or(t.Interval, 30*time.Second), Samples: cmp.Or(t.Samples, 10),
		Drain: cmp.Or(t.Drain, 10*time.Minute), Blocked: cmp.Or(t.Blocked, 15*time.Minute),
		Rollout: cmp.Or(t.Rollout, 30*time.Minute), Poll: cmp.Or(t.Poll, 10*time.Second),
		Stale: cmp.Or(t.Stale, 10*time.Minute), Replan: cmp.Or(t.Replan, 5*time.Minute),
	}
}

// Verifiable returns an error if no verification could take as many samples as it needs. Then every
// run would end as inconclusive. A sample is taken when the window begins, after each interval, and
// when it ends.
func (t Timing) Verifiable() error {
	t = t.OrDefaults()
	if most := 1 + int((t.Window+t.Interval-1)/t.Interval); t.Samples > most {
		return fmt.Errorf("verification needs %d samples, and a window of %s at an interval of %s has only %d: "+
			"lower min_samples, lengthen window, or shorten interval",
			t.Samples, t.Window, t.Interval, most)
	}
	return nil
}

// Readings returns how many readings make the baseline. They are an interval apart. One outlier
// does not move their median.
func (t Timing) Readings() int { return max(3, t.Samples/2) }
