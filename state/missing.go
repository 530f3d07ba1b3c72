package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A MissingGroup lists the signals that are missing for one reason. Reason is empty if it is not
// known.
type MissingGroup struct {
	Reason  string
	Signals []string
}

// String returns the group's size and reason: "30 no Prometheus configured".
func (g MissingGroup) String() string {
	return fmt.Sprintf("%d %s", len(g.Signals), cmp.Or(g.Reason, noReason))
}

// GroupMissing groups missing signals by reason, in the order of their first signals.
func GroupMissing(missing []Missing) []MissingGroup {
	var out []MissingGroup
	at, size := map[string]int{}, map[string]int{}
	for _, m := range missing {
		size[m.Reason]++
	}
	for _, m := range missing {
		i, ok := at[m.Reason]
		if !ok {
			i = len(out)
			at[m.Reason] = i
			out = append(out, MissingGroup{Reason: m.Reason, Signals: make([]string, 0, size[m.Reason])})
		}
		out[i].Signals = append(out[i].Signals, m.Signal)
	}
	return out
}

// MissingByReason groups the verdict's missing signals, which are "signal" or "signal (reason)".
func (d Diagnosis) MissingByReason() []MissingGroup {
	missing := make([]Missing, len(d.Missing))
	for i, text := range d.Missing {
		missing[i] = Missing{Signal: text}
		if signal, reason, ok := strings.Cut(text, " ("); ok && strings.HasSuffix(reason, ")") {
			missing[i] = Missing{Signal: signal, Reason: strings.TrimSuffix(reason, ")")}
		}
	}
	return GroupMissing(missing)
}

// SummarizeMissing returns the number of missing signals with their reasons, the most frequent
// first: "36 signals missing: 30 no Prometheus configured, 6 no series in this scope".
func SummarizeMissing(groups []MissingGroup) string {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b MissingGroup) int { return len(b.Signals) - len(a.Signals) })
	n, reasons := 0, make([]string, len(groups))
	for i, g := range groups {
		n += len(g.Signals)
		reasons[i] = g.String()
	}
	switch {
	case n == 0:
		return ""
	case len(groups) == 1:
		reasons[0] = cmp.Or(groups[0].Reason, noReason)
	}
	noun := "signals"
	if n == 1 {
		noun = "signal"
	}
	return fmt.Sprintf("%d %s missing: %s", n, noun, strings.Join(reasons, ", "))
}

// noReason stands for an unknown reason.
const noReason = "no data"

// missingFor is the stored form of missing signals. They are grouped by reason, because one reason
// often applies to all of them. Older records have one signal each.
type missingFor struct {
	Reason  string   `json:"reason"`
	Signals []string `json:"signals,omitempty"`
	Signal  string   `json:"signal,omitempty"`
}

// plainEvidence is Evidence without its methods.
type plainEvidence Evidence

// keptEvidence is the stored form of Evidence.
type keptEvidence struct {
	plainEvidence
	Missing []missingFor `json:"missing,omitempty"`
}

// MarshalJSON writes each reason for missing signals once.
func (e Evidence) MarshalJSON() ([]byte, error) {
	kept := keptEvidence{plainEvidence: plainEvidence(e)}
	for _, g := range GroupMissing(e.Missing) {
		kept.Missing = append(kept.Missing, missingFor{Reason: g.Reason, Signals: g.Signals})
	}
	return json.Marshal(kept)
}

// UnmarshalJSON reads the form that MarshalJSON writes, and the older form with a reason for each
// signal.
func (e *Evidence) UnmarshalJSON(data []byte) error {
	var kept struct {
		plainEvidence
		Missing json.RawMessage `json:"missing,omitempty"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	*e = Evidence(kept.plainEvidence)
	var err error
	e.Missing, err = DecodeMissing(kept.Missing)
	return err
}

// DecodeMissing decodes the stored form of missing signals. Equal lists are shared, and must not be
// changed in place.
func DecodeMissing(stored []byte) ([]Missing, error) { return lists.of(stored) }

// lists holds the lists of missing signals that were read. In a storm most incidents lack the same
// hundred signals, which took a fifth of the heap.
var lists = missingLists{known: map[string][]Missing{}}

// maxLists bounds the number of lists. Beyond it, new ones are not shared with older ones.
const maxLists = 256

type missingLists struct {
	mu    sync.Mutex
	known map[string][]Missing // by their stored form
}

// of returns the list of a stored form.
func (l *missingLists) of(stored []byte) ([]Missing, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if list, ok := l.known[string(stored)]; ok {
		return list, nil
	}
	var groups []missingFor
	if err := json.Unmarshal(stored, &groups); err != nil {
		return nil, err
	}
	var list []Missing
	for _, m := range groups {
		if m.Signal != "" {
			list = append(list, Missing{Signal: m.Signal, Reason: m.Reason})
		}
		for _, signal := range m.Signals {
			list = append(list, Missing{Signal: signal, Reason: m.Reason})
		}
	}
	if len(l.known) == maxLists {
		clear(l.known)
	}
	l.known[string(stored)] = slices.Clip(list)
	return l.known[string(stored)], nil
}
