package service

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"paramedic/rules/signals"
	"paramedic/state"
)

// builtInSignals returns the titles of the built-in signals by ID.
var builtInSignals = sync.OnceValue(func() map[string]string {
	titles := map[string]string{}
	all, err := signals.LoadSignals()
	if err != nil {
		return titles // the IDs are shown instead
	}
	for _, s := range all {
		titles[s.ID] = s.Title
	}
	return titles
})

// builtInSymptoms returns the titles of the built-in symptoms by ID.
var builtInSymptoms = sync.OnceValue(func() map[state.Symptom]string {
	titles := map[state.Symptom]string{}
	catalog, err := LoadRules("")
	if err != nil {
		return titles // the IDs are shown instead
	}
	for _, s := range catalog.Symptoms() {
		titles[s.ID] = s.Title
	}
	return titles
})

// SymptomTitle returns the title of a symptom, or its ID with spaces.
func SymptomTitle(id state.Symptom) string {
	if title := builtInSymptoms()[id]; title != "" {
		return title
	}
	return strings.ReplaceAll(string(id), "_", " ")
}

// signalTitle returns the title of a signal or of "symptom:ID", or the ID with spaces.
func signalTitle(id string) string {
	if symptom, ok := strings.CutPrefix(id, "symptom:"); ok {
		return SymptomTitle(state.Symptom(symptom))
	}
	if title := builtInSignals()[id]; title != "" {
		return title
	}
	return strings.ReplaceAll(id, "_", " ")
}

// signalID matches a word that may be a signal's ID.
var signalID = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b`)

// WithTitles returns a text with the titles of signals in place of their IDs.
func WithTitles(s string) string {
	return signalID.ReplaceAllStringFunc(s, func(id string) string {
		title := builtInSignals()[id]
		if title == "" {
			return id
		}
		if len(title) > 1 && title[1] >= 'a' && title[1] <= 'z' { // not an abbreviation such as KV
			title = strings.ToLower(title[:1]) + title[1:]
		}
		return title
	})
}

// fewMissing is the number of missing signals up to which each is named.
const fewMissing = 5

// MissingLines returns the missing signals of a verdict, one line per reason. More than five
// signals are one line with their number by reason. An entry is "signal" or "signal (reason)".
func MissingLines(missing []string) []string {
	var reasons []string
	titles := map[string][]string{}
	for _, m := range missing {
		signal, reason := m, "no data"
		if name, rest, ok := strings.Cut(m, " ("); ok && strings.HasSuffix(rest, ")") {
			signal, reason = name, strings.TrimSuffix(rest, ")")
		}
		if titles[reason] == nil {
			reasons = append(reasons, reason)
		}
		titles[reason] = append(titles[reason], signalTitle(signal))
	}
	lines := make([]string, len(reasons))
	for i, reason := range reasons {
		lines[i] = strings.Join(titles[reason], ", ") + ": " + reason
		if len(missing) > fewMissing {
			lines[i] = fmt.Sprintf("%d %s", len(titles[reason]), reason)
		}
	}
	if len(missing) > fewMissing {
		return []string{fmt.Sprintf("%d signals: %s", len(missing), strings.Join(lines, "; "))}
	}
	return lines
}
