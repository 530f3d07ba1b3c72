package casetest

import (
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
)

// Shares of hardly any requests are chance, and no evidence.
func TestSharesOfFewRequestsAreNoEvidence(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := firstIncident(t, c, "testdata/cases/gpu_underutilization_one_answer_of_three.txtar")
	for name, x := range map[string]struct {
		arrive, finish float64 // on each of two workers, per second
		known          bool
	}{
		"few come, and few finish":   {0.02, 0.02, false},
		"many come, and few finish":  {0.1, 0.01, true},
		"fewer come now than finish": {0.001, 0.03, true},
	} {
		ev := without(&k.ev, nil)
		for i := range ev.Samples {
			switch s := &ev.Samples[i]; s.Signal {
			case "arrival_rate":
				s.Value = x.arrive
			case "finish_rate":
				s.Value = x.finish
			}
		}
		v := evidence.ArrangeScope(k.in, k.in.Scope, ev, c)
		for _, id := range []string{"refusal_ratio", "empty_ratio", "truncated_ratio", "prefix_hit_ratio"} {
			if (v.Series(id) != nil) != x.known || (v.WhyMissing(id) == "") != x.known {
				t.Errorf("%s: %s known %v, missing because %q", name, id, v.Series(id) != nil, v.WhyMissing(id))
			}
		}
	}
}
