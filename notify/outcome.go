package notify

import "paramedic/state"

// Outcome returns the text of [state.EndText] in at most 2000 characters.
func Outcome(in *state.Incident, actions []state.Action, title func(signal string) string) string {
	return line(state.EndText(in, actions, title), maxText)
}

// Effects returns the text of [state.Effects] in at most 2000 characters.
func Effects(actions []state.Action, title func(signal string) string) string {
	return line(state.Effects(actions, title), maxText)
}
