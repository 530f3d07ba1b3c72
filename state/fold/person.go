package fold

import (
	"fmt"
	"time"

	"paramedic/state"
)

// waiting returns a run of the incident that needs a person, or nil.
func (x *step) waiting(in *state.Incident) *state.Action {
	for _, id := range in.Actions {
		if a := x.actions[id]; a.NeedsPerson() {
			return a
		}
	}
	return nil
}

// handOver makes sure that people hear of a run that needs one of them. From now on the incident is
// told like a critical one, and a silence ends. An incident that was resolved while the run went on
// is taken up again, with a page of its own.
func (x *step) handOver(in *state.Incident, a *state.Action) {
	in.HandedAt, in.SilencedUntil = x.now, time.Time{}
	x.changedIncident(in)
	if in.Open() {
		return
	}
	x.takeUp(in, x.countActive(in))
	x.rememberPage(in, "")
	x.record(in, state.Entry{Kind: "reopened", Action: a.ID, Text: fmt.Sprintf("reopened: a person has to see to %s", a.Change)})
}

// endHold lets an incident end whose alerts are long gone, once no run of it needs a person any
// more.
func (x *step) endHold(in *state.Incident) {
	if x.waiting(in) != nil {
		return
	}
	in.HandedAt = time.Time{}
	if in.Status == state.StatusMonitoring && in.HoldUntil.IsZero() {
		in.HoldUntil = x.now
		x.wake(in, x.now)
	}
	x.changedIncident(in)
}
