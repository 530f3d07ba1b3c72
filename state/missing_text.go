package state

import (
	"fmt"
	"strings"
)

// fewMissing is the number of missing signals up to which each is named.
const fewMissing = 5

// MissingLines returns the missing signals for people: one line per reason with the signals'
// titles, or, for more than five signals, a single line that counts them by reason. It reads the
// list of a diagnosis, whose entries are "signal" or "signal (reason)", and keeps the order of the
// reasons.
func MissingLines(missing []string, t Titles) []string {
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
		signals[reason] = append(signals[reason], t.Signal(signal))
	}
	if len(missing) > fewMissing {
		return []string{foldedMissing(len(missing), reasons, signals)}
	}
	var lines []string
	for _, reason := range reasons {
		lines = append(lines, strings.Join(signals[reason], ", ")+": "+reason)
	}
	return lines
}

// foldedMissing counts the missing signals by reason: "36 signals missing: 30 no Prometheus, 6 not
// exported".
func foldedMissing(n int, reasons []string, signals map[string][]string) string {
	if len(reasons) == 1 {
		return fmt.Sprintf("%d signals missing: %s", n, reasons[0])
	}
	separator := ", "
	var parts []string
	for _, reason := range reasons {
		if strings.Contains(reason, ",") {
			separator = "; "
		}
		parts = append(parts, fmt.Sprintf("%d %s", len(signals[reason]), reason))
	}
	return fmt.Sprintf("%d signals missing: %s", n, strings.Join(parts, separator))
}
