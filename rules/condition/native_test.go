package condition_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Compiled Go functions answer as CEL does: on every expression of the catalogue and on corner
// cases of the language, over evidence with random gaps.
func TestNativeAnswersAreCELs(t *testing.T) {
	c := rulestest.MustLoad(t)
	env, err := condition.NewEnvironment(c.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{
		`true`, `!false`, `!(kv_usage.value > 0.5)`, `kv_usage.value == 1.0 || kv_usage.value != 0.97`, `workers >= 1 && workers < 3`,
		`(kv_usage.max - kv_usage.min) / kv_usage.avg > 0.5`,
		`kv_usage.value > 0.5 && requests_waiting.value > 0.5`, `kv_usage.value > 0.5 || requests_waiting.value > 0.5`,
		`kv_usage.sum + 1.0 > kv_usage.count * 2.0`, `0.1 / 0.0 > kv_usage.z`,
		`pod_last_terminated.text == "OOMKilled"`, `pod_last_terminated.text != pod_waiting_reason.text`, `hint("xid") == ""`,
		`has_symptom("kv_pressure")`, `only_symptom("kv_pressure")`, `began_before("kv_pressure", "queue_buildup")`,
		`began_before("queue_buildup", "kv_pressure")`, `lasted("kv_pressure", 60.0)`, `lasted("kv_pressure", 1e9)`,
		`xid_class(gpu_xid.value) == "hardware"`, `alerted_xid("hardware")`, `role != "prefill"`, `kv_usage.day_ago < kv_usage.baseline`,
		`kv_usage.week_ago > kv_usage.day_ago`, `kv_usage.value > 2.0 * kv_usage.week_ago`,
		`output_length_mean.least > 100.0`, `kv_usage.least > 0.5`,
	} {
		if x, err := env.Compile(src); err != nil || !x.IsNative() {
			t.Fatalf("%s: compiled to Go: %v, %v", src, x != nil && x.IsNative(), err)
		}
	}
	for _, src := range []string{`pod_last_terminated.text.startsWith("OOM")`, `kv_usage.value > 0.5 ? true : false`,
		`-kv_usage.value < 0.0`} {
		if x, err := env.Compile(src); err != nil || x.IsNative() {
			t.Fatalf("%s is CEL's to answer: %v", src, err)
		}
	}
	for _, cause := range c.Causes() {
		for _, e := range cause.Evidence {
			for _, src := range []string{e.When, e.Unless} {
				if src != "" {
					if _, err := env.Compile(src); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		in, ev := rulestest.Fleet(c, 3)
		dropSamples(r, ev)
		v := evidence.ArrangeScope(in, in.Scope, ev, c)
		for src, x := range env.All() {
			if !x.IsNative() {
				continue
			}
			for _, per := range []string{"", "pod", "gpu", "node"} {
				for _, g := range v.Groups(per) {
					holds, ok := x.Answer(g)
					want, wantOK := x.Interpret(g)
					if ok != wantOK || ok && holds != want {
						t.Fatalf("%s on %q: %v, %v in Go and %v, %v in CEL", src, g.Name(), holds, ok, want, wantOK)
					}
				}
			}
		}
	}
}

// dropSamples removes random samples and changes the others.
func dropSamples(r *rand.Rand, ev *state.Evidence) {
	var kept []state.Sample
	for _, s := range ev.Samples {
		switch r.IntN(4) {
		case 0:
			continue
		case 1:
			s.Baseline = nil
		case 2:
			day := r.Float64()
			s.DayAgo, s.Z = &day, &day
		case 3:
			week := r.Float64()
			s.WeekAgo = &week
		}
		s.Value = []float64{0, 1, 79, 0.97, 0.3, 31, math.NaN()}[r.IntN(7)]
		if strings.HasPrefix(s.Signal, "pod_") && r.IntN(2) == 0 {
			s.Text = []string{"OOMKilled", "Error"}[r.IntN(2)]
		}
		kept = append(kept, s)
	}
	ev.Samples = kept
}
