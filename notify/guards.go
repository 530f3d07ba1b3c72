package notify

import "paramedic/state"

// GuardsSay returns the sentence of [state.GuardsSay].
func GuardsSay(guards []state.GuardResult, in state.ActionState) string {
	return state.GuardsSay(guards, in)
}

// GuardsSay returns the sentence of [state.GuardsSay] for the offer.
func (o Offer) GuardsSay() string { return state.GuardsSay(o.Guards, o.State) }
