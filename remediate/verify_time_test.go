package remediate

import (
	"testing"
	"time"

	"paramedic/state"
)

// A sample waits for the settling time. A verdict other than harm waits for the end of the window.
func TestVerdictWaitsForItsTime(t *testing.T) {
	begin := func(change func(*runCase)) *runCase {
		b := newRun(setEngineArgKind, state.Verifying)
		a := b.act
		a.Params = map[string]string{"arg": "max_num_seqs", "direction": "lower"}
		a.Verify = state.Verification{Settle: noon, Until: noon.Add(10 * time.Minute), Leading: []string{"kv_usage", "preemption_rate"},
			Baseline: map[string]float64{"kv_usage": .99, "preemption_rate": 25}}
		for _, p := range b.p.pods {
			for signal, v := range map[string]float64{"kv_usage": .5, "preemption_rate": 0} {
				b.ev.Samples = append(b.ev.Samples,
					state.Sample{Signal: signal, Value: v, At: noon, Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: p.Name}})
			}
		}
		change(b)
		return b
	}
	earlier := func(n int, kv, preemptions float64) func(*runCase) {
		return func(b *runCase) {
			b.act.Verify.Samples = map[string][]float64{}
			for range n {
				b.act.Verify.Samples["kv_usage"] = append(b.act.Verify.Samples["kv_usage"], kv)
				b.act.Verify.Samples["preemption_rate"] = append(b.act.Verify.Samples["preemption_rate"], preemptions)
			}
		}
	}
	blind := func(errors int) func(*runCase) {
		return func(b *runCase) { b.ev.Samples = nil; b.act.Verify.Errors = errors }
	}
	ended := func(b *runCase) { b.act.Verify.Until = noon }
	for name, c := range map[string]struct {
		set  func(*runCase)
		to   state.ActionState
		wait time.Duration
	}{
		"settling":                         {func(b *runCase) { b.act.Verify.Settle = noon.Add(time.Minute) }, state.Verifying, time.Minute},
		"settled":                          {func(*runCase) {}, state.Verifying, interval},
		"nearly at the end":                {func(b *runCase) { b.act.Verify.Until = noon.Add(time.Second) }, state.Verifying, time.Second},
		"better, before the end":           {earlier(20, .5, 0), state.Verifying, interval},
		"better, at the end":               {func(b *runCase) { earlier(9, .5, 0)(b); ended(b) }, state.Succeeded, 0},
		"too few samples, at the end":      {func(b *runCase) { earlier(8, .5, 0)(b); ended(b) }, state.NeedsHuman, 0},
		"no change, at the end":            {func(b *runCase) { earlier(20, .99, 25)(b); ended(b) }, state.NeedsHuman, 0},
		"nothing read for the third time":  {blind(2), state.Verifying, interval},
		"nothing read for the fourth time": {blind(3), state.NeedsHuman, 0},
		"only values from before": {func(b *runCase) {
			b.act.Verify.Settle = noon.Add(-moment)
			b.act.Verify.Errors = 3
			for i := range b.ev.Samples {
				b.ev.Samples[i].At = noon.Add(-2 * moment)
			}
		}, state.NeedsHuman, 0},
		"changed by another hand": {func(b *runCase) { b.p.w.UID = "dep-2" }, state.NeedsHuman, 0},
	} {
		b := begin(c.set)
		got := (&Runner{cfg: b.cfg}).verify(t.Context(), b.stage, setEngineArg{})
		if got.to != c.to || got.wait != c.wait {
			t.Errorf("%s: %s after %s: %s", name, got.to, got.wait, got.text)
		}
	}
}
