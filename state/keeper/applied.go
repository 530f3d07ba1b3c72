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
