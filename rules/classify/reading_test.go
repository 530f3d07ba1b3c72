package classify_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Thousands of alerts of one rule parse its expression once. Parsing it takes 61 allocations.
func TestKnownExpressionIsNotParsedAgain(t *testing.T) {
	c := rulestest.MustLoad(t)
	alert := func(n int) state.Alert {
		return state.Alert{Labels: map[string]string{"alertname": "Ours", "namespace": "llm", "pod": fmt.Sprintf("vllm-%d", n)},
			GeneratorURL: generator(circulating[29].expr)}
	}
	first, second := classify.Classify(c, alert(1), "c"), alert(2)
	var again state.Sign
	got := testing.AllocsPerRun(100, func() { again = classify.Classify(c, second, "c") })
	if got > 5 {
		t.Errorf("the second alert of a rule needs %v allocations", got)
	}
	if again.Symptom != first.Symptom || again.By != "metrics" || again.Entity.Pod != "vllm-2" {
		t.Errorf("the first alert is %+v, the second %+v", first, again)
	}
}

// Hints belong to the alert: the fold adds to them.
func TestChangedHintsStayWithTheirAlert(t *testing.T) {
	c := rulestest.MustLoad(t)
	a := state.Alert{Labels: map[string]string{"alertname": "Ours"}, GeneratorURL: generator("absent(vllm:num_requests_running)")}
	first := classify.Classify(c, a, "c")
	want := classify.Classify(c, a, "c")
	for k := range first.Hints {
		first.Hints[k] = "changed"
	}
	if diff := cmp.Diff(want, classify.Classify(c, a, "c")); diff != "" || len(want.Hints) == 0 {
		t.Errorf("another alert's hints changed: %s, want %+v", diff, want)
	}
}

// A reload of the user's rules changes what an expression means.
func TestReloadedRulesReadAnExpressionAnew(t *testing.T) {
	dir := t.TempDir()
	a := state.Alert{Labels: map[string]string{"alertname": "Ours"}, GeneratorURL: generator("our_own_metric > 5")}
	if s := classify.Classify(rulestest.MustLoad(t), a, "c"); s.Symptom != state.Unclassified {
		t.Fatalf("the built-in rules know our_own_metric as %s", s.Symptom)
	}
	rulestest.Write(t, dir, "mine.yaml", "metrics:\n  - {any: [our_own_metric], symptom: kv_pressure}\n")
	mine, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if s := classify.Classify(mine, a, "c"); s.Symptom != "kv_pressure" {
		t.Errorf("after the reload it is %s", s.Symptom)
	}
}
