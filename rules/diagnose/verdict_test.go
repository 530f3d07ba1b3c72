package diagnose

import (
	"slices"
	"strings"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// The confidence of unknown is one minus the sum of the candidates' confidences. A cause that only
// an alert supports is no candidate, so it does not lead.
func TestUnknownConfidenceIsItsOwnShare(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
	rulestest.Attach(in, state.Sign{Symptom: "ttft_high", Severity: state.Critical,
		Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm"}}, "x", rulestest.Now)
	d := Diagnose(c, in, &state.Evidence{At: rulestest.Now}, rulestest.Now)
	if d.Cause != state.Unknown || d.Confidence != 1 || d.Likely != nil || len(d.Alternatives) == 0 {
		t.Errorf("%s with confidence %g, likely %v, alternatives %v", d.Cause, d.Confidence, d.Likely, d.Alternatives)
	}
}

// The candidate that leads an unknown verdict is named as likely, with the evidence that it lacks.
// Two candidates that are equally likely have no leader.
func TestLeadingCandidateIsLikely(t *testing.T) {
	c := rulestest.MustLoad(t)
	v := verdict{view: evidence.ArrangeScope(&state.Incident{}, state.Scope{}, &state.Evidence{Samples: []state.Sample{{Signal: "kv_usage"}}}, c)}
	defer v.view.Release()
	v.ranked = make([]causeScore, 2)
	for i, id := range []state.Cause{"kv_leak", "kv_exhaustion"} {
		cause, _ := c.Cause(id)
		v.ranked[i] = causeScore{cause: cause, score: 4 - float64(i), confidence: 0.5 - 0.3*float64(i)}
	}
	v.ranked[0].unmet = []unobserved{{expects: "blocks held while idle", weight: 9}}
	got := likely(c, v)
	if got == nil || got.Cause != "kv_leak" || got.Confidence != 0.5 || !slices.Contains(got.Lacks, "blocks held while idle") {
		t.Fatalf("%+v", got)
	}
	if share := v.unknownShare(); share != 0.3 {
		t.Errorf("unknown has %g, want 0.3", share)
	}
	v.ranked[0].score, v.ranked[1].score = -1, -9
	if got := likely(c, v); got != nil {
		t.Errorf("%s is called likely, though more evidence speaks against it", got.Cause)
	}
	v.ranked[0].score, v.ranked[1].score = 4, 3.5
	if got := likely(c, v); got != nil {
		t.Errorf("of two equal candidates %s is called likely", got.Cause)
	}
}

// A verdict that is withheld for a look-alike, or for a possible root cause, shares its odds
// evenly. What was measured still leads.
func TestWithheldVerdictIsLikely(t *testing.T) {
	c := rulestest.MustLoad(t)
	v := verdict{view: evidence.ArrangeScope(&state.Incident{}, state.Scope{}, &state.Evidence{Samples: []state.Sample{{Signal: "kv_usage"}}}, c),
		ranked: make([]causeScore, 2), twins: []state.Cause{"bad_rollout"}, lacks: []string{"error_rate"}}
	defer v.view.Release()
	for i, id := range []state.Cause{"cold_start", "bad_rollout"} {
		cause, _ := c.Cause(id)
		v.ranked[i] = causeScore{cause: cause, score: 16 - 20*float64(i), confidence: 0.48}
	}
	if got := likely(c, v); got == nil || got.Cause != "cold_start" || len(got.Lacks) == 0 {
		t.Errorf("likely %+v, want cold_start and what it lacks", got)
	}
	v.roots, v.twins = v.twins, nil
	if got := likely(c, v); got == nil || got.Cause != "cold_start" || len(got.Lacks) == 0 {
		t.Errorf("with a possible root likely %+v, want cold_start and what it lacks", got)
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
