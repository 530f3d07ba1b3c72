package state

import "encoding/json"

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
	at := map[string]int{}
	for _, m := range e.Missing {
		i, ok := at[m.Reason]
		if !ok {
			i = len(kept.Missing)
			at[m.Reason] = i
			kept.Missing = append(kept.Missing, missingFor{Reason: m.Reason})
		}
		kept.Missing[i].Signals = append(kept.Missing[i].Signals, m.Signal)
	}
	return json.Marshal(kept)
}

// UnmarshalJSON reads the form that MarshalJSON writes, and the older form with a reason for each
// signal.
func (e *Evidence) UnmarshalJSON(data []byte) error {
	var kept keptEvidence
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	*e = Evidence(kept.plainEvidence)
	e.Missing = nil
	for _, m := range kept.Missing {
		if m.Signal != "" {
			e.Missing = append(e.Missing, Missing{Signal: m.Signal, Reason: m.Reason})
		}
		for _, signal := range m.Signals {
			e.Missing = append(e.Missing, Missing{Signal: signal, Reason: m.Reason})
		}
	}
	return nil
}
