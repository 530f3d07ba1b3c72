package hooktest

import "paramedic/state"

// After returns a change that moves an action through the states.
func After(states ...state.ActionState) func(state.Action) state.Action {
	return func(a state.Action) state.Action {
		a.Steps, a.Journal = nil, map[string]string{}
		for _, s := range states {
			a.State = s
			a.Steps = append(a.Steps, state.ActionStep{State: s, At: Start})
		}
		return a
	}
}

// CalledOff returns the change next, after which the journal says that ana called the action off.
func CalledOff(next func(state.Action) state.Action) func(state.Action) state.Action {
	return func(a state.Action) state.Action {
		a = next(a)
		a.Journal[state.CalledOff] = "ana"
		return a
	}
}

// ListApprovers gives the action of the world a policy's list of approvers.
func ListApprovers(w *World, names ...string) *World {
	a := w.Actions[Action]
	a.Approvers = names
	w.Actions[Action] = a
	return w
}
