package keeper

import (
	"testing"
	"time"

	"paramedic/state"
)

func TestRateIsOfTheLastTwoSeconds(t *testing.T) {
	start := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	var r rate
	for i, c := range []struct {
		at     time.Duration
		alerts int
		want   int
	}{
		{0, 700, 700},
		{400 * time.Millisecond, 100, 800},
		{1900 * time.Millisecond, 3, 800}, // in the second before
		{900 * time.Millisecond, 4, 800},  // of a goroutine that read the clock earlier
		{2 * time.Second, 5, 7},
		{time.Minute, 0, 0},
		{-time.Hour, 800, 800}, // the clock was set back
		{-time.Hour + 3*time.Second, 0, 0},
	} {
		at := start.Add(c.at)
		r.add(&state.Input{Command: &state.Command{}}, at)
		r.add(&state.Input{Alerts: &state.AlertBatch{Alerts: make([]state.Alert, c.alerts)}}, at)
		if got := r.perSecond(at); got != c.want {
			t.Errorf("step %d: %d a second, want %d", i, got, c.want)
		}
	}
}
