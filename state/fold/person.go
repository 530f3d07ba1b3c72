package fold

import (
	"fmt"
	"time"

	"paramedic/state"
)

// runNeedingPerson returns a run of the incident that needs a person, or nil.
func (b *Board) runNeedingPerson(in *state.Incident) *state.Action {
	for _, id := range in.Actions {
		if a := b.actions[id]; a.NeedsPerson() {
			return a
		}
	}
	return nil
}

// unannounced returns a run that needs a person and that no step of a run has announced, or nil.
// Its incident was loaded in this state.
func (b *Board) unannounced(in *state.Incident) *state.Action {
	if !in.HandedAt.IsZero() || in.MergedInto != "" {
		return nil
	}
	return b.runNeedingPerson(in)
}

// requestPerson makes sure that people are notified of a run that needs a person. The incident is
// routed as critical from now on, and a silence ends. If it was resolved while the run went on, it
// is reopened with a page of its own.
func (x *step) requestPerson(in *state.Incident, a *state.Action) {
	in.HandedAt, in.SilencedUntil = x.now, time.Time{}
	x.changedIncident(in)
	if in.Open() {
		return
	}
	x.reopen(in, x.countActive(in))
	x.endPage(in)
	x.record(in, state.Entry{Kind: "reopened", Action: a.ID,
		Text: fmt.Sprintf("reopened: %s needs a person", a.Change)})
}

// endHold lets a monitoring incident end when no run of it needs a person any more.
func (x *step) endHold(in *state.Incident) {
	if x.runNeedingPerson(in) != nil {
		return
	}
	in.HandedAt = time.Time{}
	if in.Status == state.StatusMonitoring && in.HoldUntil.IsZero() {
		in.HoldUntil = x.now
		x.setTimer(in, x.now)
	}
	x.changedIncident(in)
}
