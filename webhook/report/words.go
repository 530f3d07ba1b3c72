package report

import "paramedic/state"

// NoVerdict replaces the confidence if no cause is named.
const NoVerdict = "no verdict"

// Sureness returns the confidence of a verdict as text, or NoVerdict.
func Sureness(cause state.Cause, confidence float64) string {
	if cause == "" || cause == state.Unknown {
		return NoVerdict
	}
	return state.FormatShare(confidence)
}
