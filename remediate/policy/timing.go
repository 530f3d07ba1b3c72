package policy

import (
	"cmp"
	"fmt"
	"time"
)

// Timing is how long a run waits for what. Zero takes the default.
type Timing struct {
	Settle   time.Duration // after the change is live, before samples count; 2m
	Window   time.Duration // of verification; 10m
	Interval time.Duration // between samples; 30s
	Samples  int           // fewest that decide; 10
	Drain    time.Duration // longest wait for a worker to run nothing; 10m
	Blocked  time.Duration // longest wait for a disruption budget, and for a hold that names no end; 15m
	Rollout  time.Duration // longest wait for a rollout or a replacement; 30m
	Poll     time.Duration // between looks while waiting; 10s
	Stale    time.Duration // an intent that found no chance to be written for so long is called off; 10m
	Replan   time.Duration // between plans while a remedy is denied, and between looks while a run is held; 5m
}

func (t Timing) OrDefaults() Timing {
	return Timing{cmp.Or(t.Settle, 2*time.Minute), cmp.Or(t.Window, 10*time.Minute), cmp.Or(t.Interval, 30*time.Second),
		cmp.Or(t.Samples, 10),
		cmp.Or(t.Drain, 10*time.Minute), cmp.Or(t.Blocked, 15*time.Minute), cmp.Or(t.Rollout,
			30*time.Minute), cmp.Or(t.Poll, 10*time.Second),
		cmp.Or(t.Stale, 10*time.Minute), cmp.Or(t.Replan, 5*time.Minute)}
}

// Verifiable refuses times within which no verification takes the samples that it needs: every run
// would end as inconclusive with a person. A sample is taken when the window begins, after each
// interval, and when it ends.
func (t Timing) Verifiable() error {
	t = t.OrDefaults()
	if most := 1 + int((t.Window+t.Interval-1)/t.Interval); t.Samples > most {
		return fmt.Errorf("%d samples are needed, and a window of %s at an interval of %s has %d, so that nothing could ever be verified: ask for fewer, lengthen window, or shorten interval",
			t.Samples, t.Window, t.Interval, most)
	}
	return nil
}

// readings returns how many readings, an interval apart, make the baseline. Their median is not
// moved by one odd moment.
func (t Timing) Readings() int { return max(3, t.Samples/2) }
