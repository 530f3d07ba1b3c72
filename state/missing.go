package state

import "encoding/json"

// missingFor is how missing signals are kept: under their reason, because one reason often holds
// for all of them. A record that was written before has a signal each.
type missingFor struct {
	Reason  string   `json:"reason"`
	Signals []string `json:"signals,omitempty"`
	Signal  string   `json:"signal,omitempty"`
}

// plainEvidence is Evidence without its methods.
type plainEvidence Evidence

// keptEvidence is Evidence as it is kept.
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

// UnmarshalJSON reads what MarshalJSON writes, and missing signals that each have their reason.
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
