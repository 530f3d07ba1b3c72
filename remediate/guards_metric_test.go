package remediate

import (
	"math"
	"testing"
	"time"

	"paramedic/state"
)

func TestMovementCountsPastFactorAndNoise(t *testing.T) {
	low := metric{better: .8, worse: 1.25, noise: 1}                // of 8: better to 6.4, worse from 10
	high := metric{higher: true, better: 1.25, worse: .5, noise: 1} // of 8: better from 10, worse to 4
	guard := metric{higher: true, worse: .5, noise: 1}
	for _, c := range []struct {
		name          string
		m             metric
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
		if better, worse := c.m.compare(c.base, c.now); better != c.better || worse != c.worse {
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
		"peers half as before":     {map[string]float64{peerPrefix + "x": 4}, []float64{2, 2}, 5},
		"peers far less":           {map[string]float64{peerPrefix + "x": 4}, []float64{0, 0}, 5},
		"peers far more":           {map[string]float64{peerPrefix + "x": 4}, []float64{40, 40}, 20},
		"too few of their samples": {map[string]float64{peerPrefix + "x": 4}, []float64{2}, 10},
		"peers had nothing":        {map[string]float64{peerPrefix + "x": 0}, []float64{2, 2}, 10},
		"peers had less":           {map[string]float64{peerPrefix + "x": -1}, []float64{2, 2}, 10},
	} {
		v := &state.Verification{Baseline: c.before}
		if got := expected(v, map[string][]float64{peerPrefix + "x": c.samples}, "x", 10, 2); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if a, b := median([]float64{3, 1, 2}), median([]float64{4, 1, 2, 3}); a != 2 || b != 2.5 {
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
		m    metric
		in   []state.Sample
		need int
		want float64
		ok   bool
	}{
		"the most":            {metric{signal: "x"}, []state.Sample{x(1, 0), x(3, 0), x(2, 0)}, 1, 3, true},
		"the sum":             {metric{signal: "x", agg: aggSum}, []state.Sample{x(1, 0), x(3, 0)}, 2, 4, true},
		"too few for the sum": {metric{signal: "x", agg: aggSum}, []state.Sample{x(1, 0)}, 2, 0, false},
		"as old as may be":    {metric{signal: "x"}, []state.Sample{x(1, time.Minute)}, 1, 1, true},
		"older":               {metric{signal: "x"}, []state.Sample{x(1, time.Minute+moment)}, 1, 0, false},
		"no number":           {metric{signal: "x"}, []state.Sample{x(math.NaN(), 0)}, 1, 0, false},
		"no end":              {metric{signal: "x"}, []state.Sample{x(math.Inf(1), 0)}, 1, 0, false},
		"of the pool":         {metric{signal: "x"}, []state.Sample{ofPool}, 1, 0, false},
		"another signal":      {metric{signal: "x"}, []state.Sample{other}, 1, 0, false},
	} {
		got, ok := c.m.of(state.Evidence{Samples: c.in}, noon.Add(-time.Minute).UnixNano(), c.need, all)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %v %t", name, got, ok)
		}
	}
}

// A sample waits for the settling, and a verdict for the end of the window unless it is harm.
func TestVerdictWaitsForItsTime(t *testing.T) {
	begin := func(change func(*bedside)) *bedside {
		b := attend(setEngineArgKind, state.Verifying)
		a := b.act
		a.Params = map[string]string{"arg": "max_num_seqs", "direction": "lower"}
		a.Verify = state.Verification{Settle: noon, Until: noon.Add(10 * time.Minute), Leading: []string{"kv_usage", "preemption_rate"},
			Baseline: map[string]float64{"kv_usage": .99, "preemption_rate": 25}}
		for _, p := range b.p.pods {
			for signal, v := range map[string]float64{"kv_usage": .5, "preemption_rate": 0} {
				b.ev.Samples = append(b.ev.Samples, state.Sample{Signal: signal, Value: v, At: noon, Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: p.Name}})
			}
		}
		change(b)
		return b
	}
	earlier := func(n int, kv, preemptions float64) func(*bedside) {
		return func(b *bedside) {
			b.act.Verify.Samples = map[string][]float64{}
			for range n {
				b.act.Verify.Samples["kv_usage"] = append(b.act.Verify.Samples["kv_usage"], kv)
				b.act.Verify.Samples["preemption_rate"] = append(b.act.Verify.Samples["preemption_rate"], preemptions)
			}
		}
	}
	blind := func(errors int) func(*bedside) {
		return func(b *bedside) { b.ev.Samples = nil; b.act.Verify.Errors = errors }
	}
	ended := func(b *bedside) { b.act.Verify.Until = noon }
	for name, c := range map[string]struct {
		set  func(*bedside)
		to   state.ActionState
		wait time.Duration
	}{
		"settling":                         {func(b *bedside) { b.act.Verify.Settle = noon.Add(time.Minute) }, state.Verifying, time.Minute},
		"settled":                          {func(*bedside) {}, state.Verifying, interval},
		"nearly at the end":                {func(b *bedside) { b.act.Verify.Until = noon.Add(time.Second) }, state.Verifying, time.Second},
		"better, before the end":           {earlier(20, .5, 0), state.Verifying, interval},
		"better, at the end":               {func(b *bedside) { earlier(9, .5, 0)(b); ended(b) }, state.Succeeded, 0},
		"too few samples, at the end":      {func(b *bedside) { earlier(8, .5, 0)(b); ended(b) }, state.NeedsHuman, 0},
		"no change, at the end":            {func(b *bedside) { earlier(20, .99, 25)(b); ended(b) }, state.NeedsHuman, 0},
		"nothing read for the third time":  {blind(2), state.Verifying, interval},
		"nothing read for the fourth time": {blind(3), state.NeedsHuman, 0},
		"only values from before": {func(b *bedside) {
			b.act.Verify.Settle = noon.Add(-moment)
			b.act.Verify.Errors = 3
			for i := range b.ev.Samples {
				b.ev.Samples[i].At = noon.Add(-2 * moment)
			}
		}, state.NeedsHuman, 0},
		"changed by another hand": {func(b *bedside) { b.p.w.UID = "dep-2" }, state.NeedsHuman, 0},
	} {
		b := begin(c.set)
		got := (&Runner{cfg: b.cfg}).verify(t.Context(), b.stage, setEngineArg{})
		if got.to != c.to || got.wait != c.wait {
			t.Errorf("%s: %s after %s: %s", name, got.to, got.wait, got.text)
		}
	}
}
