package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"paramedic/state"
)

// symptomPrefix marks the ID of a symptom among the IDs of signals.
const symptomPrefix = "symptom:"

// peerPrefix marks the metric of a verification that is about the workers that were not changed.
const peerPrefix = "peers:"

// signalTitle returns the title of a signal or, with its prefix, of a symptom. Without a title it
// returns the words of the ID.
func (h *Handler) signalTitle(id string) string {
	if signal, ok := strings.CutPrefix(id, peerPrefix); ok {
		return h.signalTitle(signal) + ", other workers"
	}
	return cmp.Or(h.cfg.Titles[id], spaced(strings.TrimPrefix(id, symptomPrefix)))
}

// symptomTitle returns the title of a symptom.
func (h *Handler) symptomTitle(s state.Symptom) string {
	return h.signalTitle(symptomPrefix + string(s))
}

// spaced returns the words of an ID.
func spaced(id string) string { return strings.ReplaceAll(id, "_", " ") }

// prose returns a text with the titles of signals and symptoms in place of their IDs, and with the
// words of causes and of the states of runs. Other names with underscores, such as flags and
// configuration keys, stay.
func (h *Handler) prose(text string) string { return state.MapNames(text, h.titled) }

// titled returns the title of a word that is an ID, for the beginning or the middle of a sentence.
func (h *Handler) titled(word string, first bool) string {
	if strings.HasPrefix(word, peerPrefix) {
		return state.InSentence(h.signalTitle(word))
	}
	title := cmp.Or(h.cfg.Titles[word], h.cfg.Titles[symptomPrefix+word])
	if title == "" {
		if h.causes[word] || state.ActionState(word).Known() {
			return spaced(word)
		}
		return word
	}
	if first {
		return title
	}
	return state.InSentence(title)
}

// told returns the text of an entry of the timeline. An entry of a symptom begins with its ID, and
// one of the opening ends with it.
func (h *Handler) told(e state.Entry) string {
	switch e.Kind {
	case "symptom":
		if id, rest, ok := strings.Cut(e.Text, ": "); ok {
			return h.symptomTitle(state.Symptom(id)) + ": " + h.prose(rest)
		}
	case "opened":
		if head, id, ok := strings.Cut(e.Text, " ("); ok && strings.HasSuffix(id, ")") {
			return head + " (" + state.InSentence(h.symptomTitle(state.Symptom(strings.TrimSuffix(id, ")")))) + ")"
		}
	}
	return h.prose(e.Text)
}

// A missingGroup holds the missing signals of one reason.
type missingGroup struct {
	Reason  string
	Signals []string // titles, sorted
}

// missing groups the missing signals by reason, the largest group first. A diagnosis lists "signal"
// or "signal (reason)". The evidence has the reasons, too.
func (h *Handler) missing(names []string, reasons []state.Missing) (groups []missingGroup, total int) {
	why := map[string]string{}
	for _, m := range reasons {
		why[m.Signal] = cmp.Or(m.Reason, "no data")
	}
	signals := map[string]string{} // ID → reason
	for _, name := range names {
		id, reason, ok := strings.Cut(name, " (")
		if ok = ok && strings.HasSuffix(reason, ")"); !ok {
			id = name
		}
		reason = strings.TrimSuffix(reason, ")")
		signals[id] = cmp.Or(why[id], reason, "no data")
	}
	if len(names) == 0 {
		signals = why
	}
	by := map[string][]string{}
	for id, reason := range signals {
		by[reason] = append(by[reason], h.signalTitle(id))
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		titles := by[reason]
		slices.Sort(titles)
		groups = append(groups, missingGroup{Reason: h.prose(reason), Signals: slices.Compact(titles)})
	}
	slices.SortStableFunc(groups, func(a, b missingGroup) int { return len(b.Signals) - len(a.Signals) })
	for _, g := range groups {
		total += len(g.Signals)
	}
	return groups, total
}
