package verify

import (
	"math"
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestMovementCountsPastFactorAndNoise(t *testing.T) {
	low := Metric{Better: .8, Worse: 1.25, Noise: 1}                // of 8: better to 6.4, worse from 10
	high := Metric{Higher: true, Better: 1.25, Worse: .5, Noise: 1} // of 8: better from 10, worse to 4
	guard := Metric{Higher: true, Worse: .5, Noise: 1}
	for _, c := range []struct {
		name          string
		m             Metric
		base, now     float64
		better, worse bool
	}{
		{"lower, at the factor", low, 8, 6.4, true, false}, {"lower, short of it", low, 8, 6.5, false, false},
		{"lower, at its harm", low, 8, 10, false, true}, {"lower, short of its harm", low, 8, 9.9, false, false},
		{"lower, within the noise", low, 1, 0, false, false}, {"lower, past the noise", low, 1.1, 0, true, false},
		{"lower, harm within the noise", low, 1, 2, false, false}, {"lower, harm past the noise", low, 1, 2.1, false, true},
		{"lower, past the noise and not the factor", low, 100, 90, false, false}, {"lower, harm past the noise and not the factor", low, 100, 110, false, false},
		{"higher, at the factor", high, 8, 10, true, false}, {"higher, short of it", high, 8, 9.9, false, false},
		{"higher, at its harm", high, 8, 4, false, true}, {"higher, short of its harm", high, 8, 4.1, false, false},
		{"higher, within the noise", high, 1, 2, false, false}, {"higher, past the noise", high, 1, 2.1, true, false},
		{"higher, harm within the noise", high, 1, 0, false, false}, {"higher, harm past the noise", high, 1.1, 0, false, true},
		{"higher, past the noise and not the factor", high, 100, 110, false, false}, {"higher, harm past the noise and not the factor", high, 100, 90, false, false},
		{"a guardrail is never better", guard, 8, 80, false, false},
	} {
		if better, worse := c.m.Compare(c.base, c.now); better != c.better || worse != c.worse {
			t.Errorf("%s: better %t, worse %t", c.name, better, worse)
		}
	}
}

func TestPeersCorrectByAFactorOfTwoAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		before  map[string]float64
		samples []float64
		want    float64
	}{
		"no peers":                 {nil, []float64{4, 4}, 10},
		"peers half as before":     {map[string]float64{PeerPrefix + "x": 4}, []float64{2, 2}, 5},
		"peers far less":           {map[string]float64{PeerPrefix + "x": 4}, []float64{0, 0}, 5},
		"peers far more":           {map[string]float64{PeerPrefix + "x": 4}, []float64{40, 40}, 20},
		"too few of their samples": {map[string]float64{PeerPrefix + "x": 4}, []float64{2}, 10},
		"peers had nothing":        {map[string]float64{PeerPrefix + "x": 0}, []float64{2, 2}, 10},
		"peers had less":           {map[string]float64{PeerPrefix + "x": -1}, []float64{2, 2}, 10},
	} {
		v := &state.Verification{Baseline: c.before}
		if got := expected(v, map[string][]float64{PeerPrefix + "x": c.samples}, "x", 10, 2); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if a, b := Median([]float64{3, 1, 2}), Median([]float64{4, 1, 2, 3}); a != 2 || b != 2.5 {
		t.Errorf("%v %v", a, b)
	}
}

func TestReadingTakesFreshNumbersOfTheWhole(t *testing.T) {
	all := func(state.Entity) bool { return true }
	x := func(value float64, age time.Duration) state.Sample {
		return state.Sample{Signal: "x", Value: value, At: noon.Add(-age), Entity: state.Entity{Pod: "a"}}
	}
	ofPool := x(9, 0)
	ofPool.Entity.Pod = ""
	other := x(9, 0)
	other.Signal = "y"
	for name, c := range map[string]struct {
		m    Metric
		in   []state.Sample
		need int
		want float64
		ok   bool
	}{
		"the most":            {Metric{Signal: "x"}, []state.Sample{x(1, 0), x(3, 0), x(2, 0)}, 1, 3, true},
		"the sum":             {Metric{Signal: "x", Agg: AggSum}, []state.Sample{x(1, 0), x(3, 0)}, 2, 4, true},
		"too few for the sum": {Metric{Signal: "x", Agg: AggSum}, []state.Sample{x(1, 0)}, 2, 0, false},
		"as old as may be":    {Metric{Signal: "x"}, []state.Sample{x(1, time.Minute)}, 1, 1, true},
		"older":               {Metric{Signal: "x"}, []state.Sample{x(1, time.Minute+time.Nanosecond)}, 1, 0, false},
		"no number":           {Metric{Signal: "x"}, []state.Sample{x(math.NaN(), 0)}, 1, 0, false},
		"no end":              {Metric{Signal: "x"}, []state.Sample{x(math.Inf(1), 0)}, 1, 0, false},
		"of the pool":         {Metric{Signal: "x"}, []state.Sample{ofPool}, 1, 0, false},
		"another signal":      {Metric{Signal: "x"}, []state.Sample{other}, 1, 0, false},
	} {
		got, ok := c.m.Of(state.Evidence{Samples: c.in}, noon.Add(-time.Minute).UnixNano(), c.need, all)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %v %t", name, got, ok)
		}
	}
}

// Samples of a version that did not count the wanted workers are judged by the ready ones.
func TestOldSamplesAreJudgedByReadyWorkers(t *testing.T) {
	v := &state.Verification{Baseline: map[string]float64{WantedSignal: 5}}
	for name, c := range map[string]struct{ wanted, want []float64 }{
		"counted":         {[]float64{5, 4}, []float64{5, 5}},
		"not counted":     {nil, []float64{5, 4}},
		"counted at last": {[]float64{4}, []float64{5, 4}},
	} {
		if got := wanted(v, map[string][]float64{WantedSignal: c.wanted}, []float64{5, 4}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
