package keeper

import (
	"testing"
	"time"

	"paramedic/state"
)

// Alerts that arrive in masses make the keeper busy, and nothing else does.
func TestArrivingAlertsMakeTheKeeperBusy(t *testing.T) {
	start := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	var a arrivals
	for i, c := range []struct {
		at     time.Duration
		alerts int
		want   bool
	}{
		{0, manyAlerts - 1, false},
		{400 * time.Millisecond, 1, true},
		{1900 * time.Millisecond, 0, true},       // in the second before
		{2 * time.Second, manyAlerts / 2, false}, // two seconds before
		{3 * time.Second, manyAlerts / 2, false},
		{3900 * time.Millisecond, manyAlerts / 2, true},
		{time.Minute, 0, false},
		{-time.Hour, manyAlerts, true}, // the clock was set back
		{-time.Hour + 3*time.Second, 0, false},
	} {
		at := start.Add(c.at)
		a.add([]state.Input{{Command: &state.Command{}}, {Alerts: &state.AlertBatch{Alerts: make([]state.Alert, c.alerts)}}}, at)
		if got := a.atMost(at) >= manyAlerts; got != c.want {
			t.Errorf("step %d: busy is %v", i, got)
		}
	}
}
