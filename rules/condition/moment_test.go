package condition_test

import (
	"strings"
	"testing"

	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// The cache per request is the same as an hour ago. At the moment of that hour with similar traffic
// more requests ran, but the cache usage then is unknown. An expression must not combine values of
// both moments.
func TestBaselinesOfOneExpressionShareAMoment(t *testing.T) {
	c := rulestest.MustLoad(t)
	env, err := condition.NewEnvironment(c.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	at := func(v float64) *float64 { return &v }
	pod := state.Entity{Namespace: "llm", Pool: "p", Pod: "p-0"}
	ev := &state.Evidence{At: rulestest.Now, Workers: []state.Worker{{Namespace: "llm", Pool: "p", Pod: "p-0"}}, Samples: []state.Sample{
		{Signal: "kv_usage", Entity: pod, Value: 0.8, Baseline: at(0.2), At: rulestest.Now},
		{Signal: "requests_running", Entity: pod, Value: 40, Baseline: at(38), HourAgo: at(10), At: rulestest.Now},
	}}
	v := evidence.ArrangeScope(&state.Incident{}, state.Scope{Namespace: "llm", Pool: "p"}, ev, c)
	for src, want := range map[string]bool{
		"requests_running.value > 1.5 * requests_running.baseline":                                                         false,
		"requests_running.value > 1.5 * requests_running.hour_ago":                                                         true,
		"kv_usage.value / requests_running.value > 1.5 * kv_usage.baseline / requests_running.baseline":                    false,
		"requests_running.value > 1.5 * requests_running.baseline && kv_usage.value > 1.5 * kv_usage.baseline":             true,
		"requests_running.value < 1.5 * requests_running.baseline && requests_running.value > requests_running.baseline":   true,
		"kv_usage.value / kv_usage.baseline >= requests_running.value / requests_running.baseline && kv_usage.value > 0.5": true,
	} {
		x, err := env.Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range append(v.Groups(""), v.Groups("pod")...) {
			holds, ok := x.Answer(g)
			if slow, known := x.Interpret(g); !ok || !known || holds != want || slow != want {
				t.Errorf("%s of %q: %t %t, by CEL %t %t, want %t", src, g.Name(), holds, ok, slow, known, want)
			}
		}
	}
	for _, cause := range c.Causes() {
		for _, e := range cause.Evidence {
			if e.Condition.Together && strings.Contains(e.Text, ".baseline}") {
				t.Errorf("%s: the text tells of another moment than the expression: %s", cause.ID, e.Text)
			}
		}
	}
}
