package main

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"paramedic/tools/holdout/fit"
)

// A played run keeps the evidence of its verdict, whose sums give the verdict's confidence.
func TestPlayedRunGivesACase(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: plays a run of 90 simulated minutes")
	}
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	c := convention{}
	for _, d := range dimensions {
		c[d.name] = d.values[0]
	}
	r, err := k.play(context.Background(), task{"engine_hang", 7, c})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != "right" || len(r.Verdicts) != 1 || !r.Verdicts[0].Right {
		t.Fatalf("%s: %+v", r.Outcome, r.Verdicts)
	}
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := keep(file, r); err != nil {
		t.Fatal(err)
	}
	kept, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := casesOf(kept, k)
	if err != nil || len(cases) != 1 || cases[0].Truth != "engine_hang" {
		t.Fatalf("%+v: %v", cases, err)
	}
	loss, err := fit.Loss(weightsOf(k.catalog), cases)
	if err != nil || math.Abs(math.Exp(-loss)-r.Confidence) > 1e-4 {
		t.Errorf("%v: the sums give a confidence of %.4f, the verdict has %.4f", err, math.Exp(-loss), r.Confidence)
	}
	if again, err := k.again(kept[0]); err != nil || again.Outcome != "right" || again.Confidence != r.Confidence {
		t.Errorf("%v: %s with %.4f is given again as %s with %.4f", err, r.Outcome, r.Confidence, again.Outcome, again.Confidence)
	}
	for _, c := range k.catalog.Causes() {
		c.Prior = -200
	}
	if again, err := k.again(kept[0]); err != nil || again.Outcome != "unknown" || len(again.Verdicts) != 0 {
		t.Errorf("%v: with a catalogue of unlikely causes the verdict is %+v", err, again.Verdicts)
	}
	if _, err := casesOf([]result{{Fault: "engine_hang", Outcome: "right"}}, k); err == nil {
		t.Error("no error for runs without evidence")
	}
	kept[0].Moment = kept[0].Moment[1:]
	if _, err := casesOf(kept, k); err == nil {
		t.Error("no error for a damaged verdict")
	}
}

// Shared weights are fixed, and a cause that only alerts speak for has no support.
func TestCaseSeparatesSharedWeights(t *testing.T) {
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	causes := causesOf([]sum{{"kv_leak", map[string]int{"unexplained": 2, "beside": 1, "evidence/0": 1}},
		{"kv_exhaustion", map[string]int{"symptom:ttft_high": 1}}},
		map[string]float64{"unexplained": -3, "beside": -4}, weightsOf(k.catalog))
	leak, full := causes[0], causes[1]
	if leak.Fixed != -10 || !leak.Supported || !slices.Equal(leak.Terms, []fit.Term{{ID: "kv_leak/prior", Count: 1}, {ID: "kv_leak/evidence/0", Count: 1}}) {
		t.Errorf("%+v", leak)
	}
	if full.Supported || full.Fixed != 0 || len(full.Terms) != 2 {
		t.Errorf("%+v", full)
	}
}
