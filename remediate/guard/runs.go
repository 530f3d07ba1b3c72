package guard

import (
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// Entered returns when the run came to a state, or zero if it never did. The journal's time moves
// if the clock is set, unlike that of the step.
func Entered(a state.Action, st state.ActionState) time.Time {
	step := FirstStep(a, st)
	if t, err := time.Parse(time.RFC3339Nano, a.Journal[string(st)]); err == nil && step.State != "" {
		return t
	}
	return step.At // recorded by an older version
}

// Written returns when the run recorded its intent, or zero if it never did.
func Written(a state.Action) time.Time { return Entered(a, state.Intent) }

// Wrote reports whether the run did, or may have done, something to the cluster. A superseded run
// did if another hand put its write back.
func Wrote(a state.Action) bool {
	if a.State == state.Superseded {
		return a.Reached(state.Applied)
	}
	return !Written(a).IsZero() && a.State != state.Denied
}

// FirstStep returns the step at which the run first came to a state, or an empty one.
func FirstStep(a state.Action, st state.ActionState) state.ActionStep {
	i := slices.IndexFunc(a.Steps, func(s state.ActionStep) bool { return s.State == st })
	if i < 0 {
		return state.ActionStep{}
	}
	return a.Steps[i]
}

// PlanHash returns the hash that binds an approval to one action on one object.
func PlanHash(a *state.Action) string {
	t := a.Target
	parts := []string{string(a.Incident), a.Kind, t.Cluster, t.String(), t.UID, t.Container, a.Change}
	for _, k := range slices.Sorted(maps.Keys(a.Params)) {
		parts = append(parts, k, a.Params[k])
	}
	return state.Hash(parts...)
}
