package keeper

import (
	"testing"
	"time"

	"paramedic/state"
)

// An input that the disk lost before it was read must not count as lag for ever.
func TestLostInputDoesNotCountAsLag(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	of := func(id string, at time.Time) *state.Input {
		return &state.Input{ID: id, At: at, Alerts: &state.AlertBatch{Alerts: make([]state.Alert, 2)}}
	}
	var b backlog
	b.add(of("lost", at), at)
	soon, late := of("soon", at.Add(time.Second)), of("late", at.Add(2*time.Minute))
	b.add(soon, soon.At)
	b.add(late, late.At)
	b.applied(soon, soon.At)
	if got := b.lag(0, soon.At); got.Inputs != 2 {
		t.Errorf("two that were appended at once may change places: %+v", got)
	}
	b.applied(late, late.At)
	if got := b.lag(0, late.At.Add(time.Hour)); got.Inputs != 0 || got.Alerts != 0 || got.Age != 0 {
		t.Errorf("%+v", got)
	}
}

// A storm's first inputs share the processors with the payloads that arrive. Their speed must not
// refuse the storm. The speed of longer work counts as it is.
func TestFewInputsSayLittleAboutSpeed(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	work := func(took time.Duration) time.Duration {
		var b backlog
		first := &state.Input{ID: "first", At: at, Alerts: &state.AlertBatch{Alerts: make([]state.Alert, 500)}}
		b.add(first, at)
		for n := range 400 {
			b.add(&state.Input{ID: string(rune(n + 'A')), At: at, Alerts: &state.AlertBatch{Alerts: make([]state.Alert, 500)}}, at)
		}
		b.begin(first, at)
		b.applied(first, at.Add(took))
		return b.lag(0, at.Add(took)).Work
	}
	if got := work(time.Second); got > 30*time.Second {
		t.Errorf("after 500 alerts in a second, 200,000 are expected to take %s", got)
	}
	if got := work(leastWork); got != 400*leastWork {
		t.Errorf("after 500 alerts in %s, 200,000 are expected to take %s", leastWork, got)
	}
}
