package diagnose

import (
	"strings"
	"testing"

	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// The confidence of an unknown cause is one minus that of the best cause, as the API's description
// promises.
func TestUnknownConfidenceComplementsBestCause(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
	rulestest.Attach(in, state.Sign{Symptom: "ttft_high", Severity: state.Critical,
		Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm"}}, "x", rulestest.Now)
	d := Diagnose(c, in, &state.Evidence{At: rulestest.Now}, rulestest.Now)
	if d.Cause != state.Unknown || len(d.Alternatives) == 0 {
		t.Fatalf("%s, alternatives %v", d.Cause, d.Alternatives)
	}
	best := d.Alternatives[0]
	if best.Confidence <= 0 || d.Confidence != condition.Round(1-best.Confidence, 4) || d.Score != best.Score {
		t.Errorf("unknown has confidence %g and score %g, %s has %g and %g", d.Confidence, d.Score, best.Cause, best.Confidence, best.Score)
	}
}

// Confidences are shares of one whole, so they never add up to more than one. The evidence in
// "would win if" suffices to name the cause.
func TestConfidencesAddUpAndWouldWinSuffices(t *testing.T) {
	c := rulestest.MustLoad(t)
	for symptom := range c.SymptomTable() {
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		rulestest.Attach(in, state.Sign{Symptom: symptom, Severity: state.Critical,
			Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm"}}, "x", rulestest.Now)
		v := weighAll(c, evidence.ArrangeScope(in, in.Scope, nil, c), in)
		sum := 0.0
		for _, w := range v.ranked {
			sum += w.confidence
		}
		for i, w := range v.ranked {
			rival := v.ranked[min(1, len(v.ranked)-1)].score
			if i > 0 {
				rival = v.ranked[0].score
			}
			need := needed(v, &v.ranked[i])
			if got := wouldWin(c, v, &v.ranked[i]); got == "" || w.score+need < threshold-.1 || w.score+need < rival+margin-.1 {
				t.Errorf("%s: %s at %g dB, the best other at %g, would be named after %g dB more with %q", symptom, w.cause.ID, w.score,
					rival, need, got)
			}
			if total := weights(w); total < need && !strings.Contains(wouldWin(c, v, &v.ranked[i]), "evidence against it") {
				t.Errorf("%s: %s needs %g dB, and its signs are worth %g", symptom, w.cause.ID, need, total)
			}
		}
		if sum > 1.001 {
			t.Errorf("%s: the causes' confidences add up to %.3f", symptom, sum)
		}
	}
}

// weights returns the sum of a cause's signs that were not seen.
func weights(w causeScore) float64 {
	sum := 0.0
	for _, u := range w.unmet {
		sum += u.weight
	}
	return sum
}

// A consequence of the best cause does not compete with it, but a look-alike does: a surge that is
// slightly ahead of a full cache is no verdict.
func TestLookAlikeConsequenceCompetes(t *testing.T) {
	c := rulestest.MustLoad(t)
	ranked := func(ids ...state.Cause) verdict {
		var v verdict
		for i, id := range ids {
			v.ranked = append(v.ranked, causeScore{cause: c.CauseTable()[id], score: float64(10 - i)})
		}
		return v
	}
	for name, tt := range map[string]struct {
		v    verdict
		want state.Cause
	}{
		"a surge and a full cache":             {ranked("traffic_surge", "kv_exhaustion", "retry_storm"), "kv_exhaustion"},
		"a kill and the overload that it left": {ranked("oom_killed", "kv_exhaustion", "retry_storm"), "retry_storm"},
	} {
		if got := tt.v.firstRival(&state.Incident{}); got == nil || got.cause.ID != tt.want {
			t.Errorf("%s: the rival is %v, want %s", name, got, tt.want)
		}
	}
}
