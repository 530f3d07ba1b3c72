package state

import "strings"

// FewMissing is the number of missing signals up to which each is named. More fold by reason.
const FewMissing = 5

// MissingLines returns the verdict's missing signals for people: one line per reason with the
// signals' titles, or a single line that counts them by reason.
func (d Diagnosis) MissingLines(t Titles) []string {
	groups := d.MissingByReason()
	if len(d.Missing) > FewMissing {
		return []string{SummarizeMissing(groups)}
	}
	var lines []string
	for _, g := range groups {
		titles := make([]string, len(g.Signals))
		for i, id := range g.Signals {
			titles[i] = t.Signal(id)
		}
		reason := g.Reason
		if reason == "" {
			reason = noReason
		}
		lines = append(lines, strings.Join(titles, ", ")+": "+reason)
	}
	return lines
}
