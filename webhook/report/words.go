package report

import (
	"fmt"
	"strings"

	"paramedic/state"
)

// NoVerdict replaces the confidence if no cause is named. How sure the bot is that it does not know
// is of no use.
const NoVerdict = "no verdict"

// Sureness returns the confidence of a verdict as text, or NoVerdict.
func Sureness(cause state.Cause, confidence float64) string {
	if cause == "" || cause == state.Unknown {
		return NoVerdict
	}
	return state.FormatShare(confidence)
}

// namedMissing is the number of signals up to which those with the same reason are named one by
// one.
const namedMissing = 3

// MissingLines returns the missing evidence, one line per reason. It reads the list of a diagnosis,
// whose entries are "signal" or "signal (reason)", and keeps the order of the reasons.
func MissingLines(missing []string) []string {
	var reasons []string
	signals := map[string][]string{}
	for _, m := range missing {
		signal, reason := m, "no data"
		if name, rest, ok := strings.Cut(m, " ("); ok && strings.HasSuffix(rest, ")") {
			signal, reason = name, strings.TrimSuffix(rest, ")")
		}
		if signals[reason] == nil {
			reasons = append(reasons, reason)
		}
		signals[reason] = append(signals[reason], signal)
	}
	lines := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		names := signals[reason]
		who := strings.Join(names, ", ")
		if len(names) > namedMissing {
			who = fmt.Sprintf("%d signals, %s and %d more", len(names), names[0], len(names)-1)
		}
		lines = append(lines, who+": "+reason)
	}
	return lines
}
