package report

import (
	"fmt"
	"strings"

	"paramedic/state"
)

// NoVerdict is what texts say in place of a confidence where no cause is named: how sure the bot is
// that it does not know helps nobody.
const NoVerdict = "no verdict"

// Sureness is how sure a verdict is, as texts say it.
func Sureness(cause state.Cause, confidence float64) string {
	if cause == "" || cause == state.Unknown {
		return NoVerdict
	}
	return state.FormatShare(confidence)
}

// namedMissing is how many signals with the same reason are named one by one.
const namedMissing = 3

// MissingLines says what evidence is missing, a line for every reason and not for every signal. It
// reads a diagnosis' list, whose entries are "signal" or "signal (reason)", and keeps the order in
// which the reasons come up.
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
