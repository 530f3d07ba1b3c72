package enrich

import (
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// missing returns the signals without a sample, with the reasons of the sources that failed.
func (m *merge) missing(had map[string]bool) []state.Missing {
	var out []state.Missing
	for _, s := range m.wanted {
		if had[s.ID] {
			continue
		}
		var reasons []string
		for _, r := range m.readings {
			if why := r.Failed[s.ID]; why != "" && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
		reason := strings.Join(reasons, "; ")
		if reason == "" {
			reason = "no series in this scope"
			if s.Text {
				continue // no text (no termination, no bad condition) is good news, not missing
			}
		}
		out = append(out, state.Missing{Signal: s.ID, Reason: reason})
	}
	for _, r := range m.readings {
		out = append(out, r.Notes...)
	}
	return out
}

// standIn returns a note if baselines are of the first minutes of a short past. The parameter has
// the start of that past for each such sample, else zero.
func standIn(began []time.Time) []state.Missing {
	began = slices.DeleteFunc(began, time.Time.IsZero)
	if len(began) == 0 {
		return nil
	}
	first := slices.MinFunc(began, time.Time.Compare).UTC().Format("15:04:05 UTC")
	return []state.Missing{{Signal: "baseline",
		Reason: "no history of the hour before the onset until " + first + "; the first values serve as the baseline"}}
}
