package verify

import (
	"slices"
	"testing"

	"paramedic/state"
)

// The text shows the deciding value: the end of the window, if it differs from the middle.
func TestChangeTextShowsTheDecidingValue(t *testing.T) {
	plain := Metric{Signal: "x", Unit: "s", Better: .8, Worse: 1.25, Noise: .1} // of 10: better to 8, worse from 12.5
	guard := plain
	guard.Guardrail = true
	for name, c := range map[string]struct {
		m             Metric
		most, end     float64 // of the first two thirds and of the last one
		now           float64
		better, worse bool
	}{
		"better all along":                  {plain, 6, 5, 6, true, false},
		"better at the end":                 {plain, 10, 5, 10, false, false},
		"better but for the end":            {plain, 5, 11, 11, false, false},
		"no change":                         {plain, 10, 11, 10, false, false},
		"worse":                             {plain, 20, 13, 20, false, true},
		"worse but for the end":             {plain, 20, 10, 20, false, false},
		"worse at the end":                  {plain, 10, 20, 10, false, false},
		"guardrail, better all along":       {guard, 6, 5, 5, true, false},
		"guardrail, better at the end":      {guard, 20, 5, 5, true, false},
		"guardrail, better but for the end": {guard, 5, 11, 11, false, false},
		"guardrail, no change":              {guard, 10, 11, 10, false, false},
		"guardrail, worse":                  {guard, 20, 13, 20, false, true},
	} {
		got := append(slices.Repeat([]float64{c.most}, 6), c.end, c.end, c.end)
		v := &state.Verification{Baseline: map[string]float64{"x": 10}}
		is, known := c.m.change(v, map[string][]float64{"x": got}, 9)
		want := change{text: "x 10 s → " + state.FormatValue(c.now, "s"), now: c.now, better: c.better, worse: c.worse}
		if !known || is != want {
			t.Errorf("%s: %+v, want %+v", name, is, want)
		}
	}
}

// A change that the peers had too is not due to the remedy.
func TestChangeIsMoreThanThePeersHad(t *testing.T) {
	m := Metric{Signal: "x", Unit: "s", Better: .8, Worse: 1.25, Noise: .1}
	few := func(v float64) []float64 { return slices.Repeat([]float64{v}, 3) }
	for name, c := range map[string]struct {
		base          map[string]float64
		now, peers    float64
		known         bool
		better, worse bool
	}{
		"peers as before":      {map[string]float64{"x": 10, PeerPrefix + "x": 4}, 7, 4, true, true, false},
		"peers as much better": {map[string]float64{"x": 10, PeerPrefix + "x": 4}, 7, 2.8, true, false, false},
		"peers as much worse":  {map[string]float64{"x": 10, PeerPrefix + "x": 4}, 13, 5.2, true, false, false},
		"not known before":     {map[string]float64{PeerPrefix + "x": 4}, 7, 4, false, false, false},
	} {
		v := &state.Verification{Baseline: c.base}
		is, known := m.change(v, map[string][]float64{"x": few(c.now), PeerPrefix + "x": few(c.peers)}, 3)
		if known != c.known || is.better != c.better || is.worse != c.worse {
			t.Errorf("%s: %t, %+v", name, known, is)
		}
	}
}
