package keeper

import (
	"time"

	"paramedic/state"
)

// An Applied is an input with the incidents that it is about, each once, and the times at which it
// was begun and committed.
type Applied struct {
	state.Input
	Incidents        []state.IncidentID
	Began, Committed time.Time
}

// trace reports the traced inputs of a commit.
func (k *Keeper) trace(traced []Applied) {
	if len(traced) == 0 {
		return
	}
	now := k.cfg.Clock.Now()
	for i := range traced {
		traced[i].Committed = now
	}
	k.cfg.Traced(traced)
}
