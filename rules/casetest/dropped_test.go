package casetest

import (
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
)

// Long answers are aborted first, so the lengths of the others have no valid baseline. If even they
// grew, answers did grow.
func TestOutputLengthIsUnknownWhenManyRequestsAbort(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := firstIncident(t, c, "testdata/cases/unknown_surge_or_longer_answers_given_up.txtar")
	for name, x := range map[string]struct {
		aborted, aborts, finished, finishes, tokens, usual float64 // now and before
		known                                              bool
	}{
		"most are given up":                 {1.2, 0.01, 0.8, 2, 1100, 1000, false},
		"most are, and they still grew":     {1.2, 0.01, 0.8, 2, 1500, 1000, true},
		"most are, and most were":           {1.2, 1.1, 0.8, 0.9, 1100, 1000, true},
		"a quarter is, and no more":         {0.5, 0.01, 1.5, 2, 1100, 1000, true},
		"two of five in a quarter hour are": {0.002, 0, 0.003, 0.02, 1100, 1000, true},
		"nothing ends":                      {0, 0, 0, 2, 1100, 1000, true},
	} {
		ev := measured(&k.ev).without(nil)
		for i := range ev.Samples {
			s := &ev.Samples[i]
			switch s.Signal {
			case "abort_rate":
				s.Value, s.Baseline = x.aborted, &x.aborts
			case "finish_rate":
				s.Value, s.Baseline = x.finished, &x.finishes
			case "output_length_mean":
				s.Value, s.Baseline = x.tokens, &x.usual
			}
		}
		if v := evidence.ArrangeScope(k.in, k.in.Scope, ev, c); (v.Series("output_length_mean") != nil) != x.known ||
			(v.WhyMissing("output_length_mean") == "") != x.known {
			t.Errorf("%s: known %v, missing because %q", name, v.Series("output_length_mean") != nil, v.WhyMissing("output_length_mean"))
		}
	}
	if v := evidence.ArrangeScope(k.in, k.in.Scope, measured(&k.ev).without(nil, "finish_rate"), c); v.Series("output_length_mean") == nil {
		t.Errorf("how many finish is not known, and lengths are left out: %s", v.WhyMissing("output_length_mean"))
	}
}

// A share of hardly any requests is chance, and no evidence.
func TestSharesOfFewRequestsAreNoEvidence(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := firstIncident(t, c, "testdata/cases/unknown_one_answer_of_three.txtar")
	for name, x := range map[string]struct {
		arrive, finish float64 // on each of two workers, per second
		known          bool
	}{
		"few come, and few finish":   {0.02, 0.02, false},
		"many come, and few finish":  {0.1, 0.01, true},
		"fewer come now than finish": {0.001, 0.03, true},
	} {
		ev := measured(&k.ev).without(nil)
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
