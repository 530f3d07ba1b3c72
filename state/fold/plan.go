package fold

import (
	"slices"
	"time"

	"paramedic/state"
)

const (
	// planPause is the time before a remedy is planned again that ended without a write; it doubles
	// with each end in a row.
	planPause     = 5 * time.Minute
	planPauseMost = time.Hour
	// askedPause lets the evidence that a person asked for arrive before the plan that is made on
	// it.
	askedPause = 15 * time.Second
)

func planEffect(id state.IncidentID) state.EffectID { return state.EffectID("plan:" + string(id)) }

// wantPlan asks for a plan of first aid at a time, where there is something to treat.
func (x *step) wantPlan(in *state.Incident, due time.Time) {
	if !x.Settings.Remediate || !in.Open() || in.DiagnosedAt.IsZero() || in.Cause() == state.Unknown || in.Cause() == state.BenignAlert {
		return
	}
	x.put(state.Effect{ID: planEffect(in.ID), Kind: state.EffectPlan, Cluster: in.Cluster, Incident: in.ID, Due: due})
}

// planAsked asks for a plan because a person wants a new diagnosis: it waits for no pause.
func (x *step) planAsked(in *state.Incident) {
	x.drop(planEffect(in.ID))
	x.wantPlan(in, x.now.Add(askedPause))
}

// planAgain asks for a new plan where a run ended without a write, and without a person's no. The
// more often in a row the remedy ended so, the longer it waits: people must not be asked on and on,
// nor a guard.
func (x *step) planAgain(in *state.Incident, a *state.Action) {
	if !a.RanOut() {
		return
	}
	ends := 0
	for _, id := range slices.Backward(in.Actions) {
		if b := x.actions[id]; b != nil && b.SameRemedy(a) {
			if !b.RanOut() {
				break
			}
			ends++
		}
	}
	if a.State == state.Expired {
		ends-- // it was offered, and nobody had the time: the first offer is renewed at once
	}
	var pause time.Duration
	if ends > 0 {
		pause = min(planPause<<min(ends-1, 8), planPauseMost)
	}
	// A plan that is being made now may not know of the end of a run: its answer is not taken. What
	// it denied itself it knows of.
	own := a.Steps[0].At.Equal(a.Steps[len(a.Steps)-1].At)
	if e := x.effects[planEffect(in.ID)]; e != nil && !e.Due.After(x.now) && !own {
		e.Turn = x.in.Seq
		x.touch(kindEffect, string(e.ID))
	}
	x.wantPlan(in, x.now.Add(pause))
}
