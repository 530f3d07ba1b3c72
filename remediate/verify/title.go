package verify

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
)

// Titles holds the titles of signals by ID. Texts show a signal without a title by its ID.
type Titles map[string]string

// Of returns a signal's title in the form that it has within a sentence.
func (t Titles) Of(signal string) string {
	return state.InSentence(cmp.Or(t[signal], signal))
}

// List returns the titles of signals, joined by commas.
func (t Titles) List(signals []string) string {
	out := make([]string, len(signals))
	for i, s := range signals {
		out[i] = t.Of(s)
	}
	return strings.Join(out, ", ")
}

// Name returns the metrics with their signals' titles.
func (t Titles) Name(metrics []Metric) []Metric {
	out := slices.Clone(metrics)
	for i := range out {
		out[i].title = t.Of(out[i].Signal)
	}
	return out
}
