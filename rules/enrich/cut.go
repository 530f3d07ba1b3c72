package enrich

import (
	"fmt"
	"slices"

	"paramedic/state"
)

const (
	// cutShare is the share of the requests that have to be given up for the lengths of what ended to say little. Long answers are given up
	// first: of log-normal ones (σ 0.6) without the longest quarter, the mean is seven tenths of what it would be.
	cutShare = 0.25
	// cutGrown is how many times its usual such a length has to be to be kept: answers are at least so long.
	cutGrown = 1.4
)

// cut leaves out how long answers are where many requests were given up: what ended by itself is the short ones, and what was given up has half
// an answer, so that their mean is nobody's. It can only say too little, and is therefore kept where it says that answers grew.
func (m *merge) cut(ev *state.Evidence) {
	var lengths []string
	for _, s := range m.signals {
		if s.Cut {
			lengths = append(lengths, s.ID)
		}
	}
	type pool struct{ namespace, name string }
	aborted, ended := map[pool]float64{}, map[pool]float64{}
	for _, s := range ev.Samples {
		of := pool{s.Entity.Namespace, s.Entity.Pool}
		switch s.Signal {
		case "abort_rate":
			aborted[of] += s.Value
			ended[of] += s.Value
		case "finish_rate":
			ended[of] += s.Value
		}
	}
	left := map[string]bool{}
	ev.Samples = slices.DeleteFunc(ev.Samples, func(s state.Sample) bool {
		of := pool{s.Entity.Namespace, s.Entity.Pool}
		grown := s.Baseline != nil && s.Value >= cutGrown**s.Baseline
		if !slices.Contains(lengths, s.Signal) || aborted[of] <= cutShare*ended[of] || grown {
			return false
		}
		if !left[s.Signal] {
			left[s.Signal] = true
			ev.Missing = append(ev.Missing, state.Missing{Signal: s.Signal,
				Reason: fmt.Sprintf("%.0f %% of the requests are given up, and what is left of them does not say how long answers are", 100*aborted[of]/ended[of])})
		}
		return true
	})
}
