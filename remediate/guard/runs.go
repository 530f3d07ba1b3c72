package guard

import (
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// written is when the run recorded its intent, zero if it never did.
func Written(a state.Action) time.Time {
	for _, st := range a.Steps {
		if st.State == state.Intent {
			return st.At
		}
	}
	return time.Time{}
}

// wrote reports whether the run did, or may have done, something to the cluster. One that was
// superseded did where its write was put back by another hand.
func Wrote(a state.Action) bool {
	if a.State == state.Superseded {
		return a.Reached(state.Applied)
	}
	return !Written(a).IsZero() && a.State != state.Denied
}

// reached is the step at which the run first came to a state; the zero one where it never did.
func FirstStep(a state.Action, st state.ActionState) state.ActionStep {
	i := slices.IndexFunc(a.Steps, func(s state.ActionStep) bool { return s.State == st })
	if i < 0 {
		return state.ActionStep{}
	}
	return a.Steps[i]
}

// planHash binds an approval to what is done to which object.
func PlanHash(a *state.Action) string {
	parts := []string{string(a.Incident), a.Kind, a.Target.Cluster, a.Target.String(), a.Target.UID, a.Target.Container,
		a.Change}
	for _, k := range slices.Sorted(maps.Keys(a.Params)) {
		parts = append(parts, k, a.Params[k])
	}
	return state.Hash(parts...)
}
