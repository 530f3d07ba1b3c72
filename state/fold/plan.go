package fold

import (
	"slices"
	"time"

	"paramedic/state"
)

const (
	// planPause is the delay before a remedy that ended without a write is planned again. It
	// doubles with each end in a row.
	planPause     = 5 * time.Minute
	planPauseMost = time.Hour
	// askedPause is the delay of a plan that a person asked for, so that the new evidence arrives
	// first.
	askedPause = 15 * time.Second
)

func planEffect(id state.IncidentID) state.EffectID { return state.EffectID("plan:" + string(id)) }

// wantPlan wants a plan of first aid at a time, if the incident has a named cause.
func (x *step) wantPlan(in *state.Incident, due time.Time) {
	if !x.Settings.Remediate || !in.Open() || in.DiagnosedAt.IsZero() || in.Cause() == state.Unknown ||
		in.Cause() == state.BenignAlert {
		return
	}
	x.wantEffect(state.Effect{ID: planEffect(in.ID), Kind: state.EffectPlan, Cluster: in.Cluster, Incident: in.ID,
		Due: due})
}

// planNow wants a plan because a person asked for a new diagnosis. It skips the pause.
func (x *step) planNow(in *state.Incident) {
	x.dropEffect(planEffect(in.ID))
	x.wantPlan(in, x.now.Add(askedPause))
}

// planAgain wants a new plan if a run ended without a write and without a person's refusal. The
// pause grows with the number of such ends in a row, so that neither people nor guards are asked
// too often.
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
		ends-- // the offer expired: the first one is renewed at once
	}
	var pause time.Duration
	if ends > 0 {
		pause = min(planPause<<min(ends-1, 8), planPauseMost)
	}
	// A plan in progress may not know that this run ended, so its answer is dropped. It does know
	// of a run that it denied itself.
	own := a.Steps[0].At.Equal(a.Steps[len(a.Steps)-1].At)
	if e := x.effects[planEffect(in.ID)]; e != nil && !e.Due.After(x.now) && !own {
		x.changeEffect(e, func(e *state.Effect) { e.Turn = x.in.Turn() })
	}
	x.wantPlan(in, x.now.Add(pause))
}
