package rules

import (
	"strings"
	"testing"

	"paramedic/state"
)

// The cache that a request holds was as it is an hour ago. At the moment of that hour which was
// busy as now, more ran, of which the cache's use is not known: no expression puts the two
// together.
func TestExpressionAsksForOneMoment(t *testing.T) {
	c := MustLoad(t)
	env, err := newEnvironment(c.vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	at := func(v float64) *float64 { return &v }
	pod := state.Entity{Namespace: "llm", Pool: "p", Pod: "p-0"}
	ev := &state.Evidence{At: Now, Workers: []state.Worker{{Namespace: "llm", Pool: "p", Pod: "p-0"}}, Samples: []state.Sample{
		{Signal: "kv_usage", Entity: pod, Value: 0.8, Baseline: at(0.2), At: Now},
		{Signal: "requests_running", Entity: pod, Value: 40, Baseline: at(38), HourAgo: at(10), At: Now},
	}}
	v := newView(&state.Incident{}, state.Scope{Namespace: "llm", Pool: "p"}, ev, c)
	for src, want := range map[string]bool{
		"requests_running.value > 1.5 * requests_running.baseline":                                                         false,
		"requests_running.value > 1.5 * requests_running.hour_ago":                                                         true,
		"kv_usage.value / requests_running.value > 1.5 * kv_usage.baseline / requests_running.baseline":                    false,
		"requests_running.value > 1.5 * requests_running.baseline && kv_usage.value > 1.5 * kv_usage.baseline":             true,
		"requests_running.value < 1.5 * requests_running.baseline && requests_running.value > requests_running.baseline":   true,
		"kv_usage.value / kv_usage.baseline >= requests_running.value / requests_running.baseline && kv_usage.value > 0.5": true,
	} {
		x, err := env.compile(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range append(v.groups(""), v.groups("pod")...) {
			holds, ok := x.answer(g)
			if slow, known := x.interpret(g); !ok || !known || holds != want || slow != want {
				t.Errorf("%s of %q: %t %t, by CEL %t %t, want %t", src, g.name(), holds, ok, slow, known, want)
			}
		}
	}
	for _, cause := range c.Causes() {
		for _, e := range cause.Evidence {
			if e.when.together && strings.Contains(e.Text, ".baseline}") {
				t.Errorf("%s: the text tells of another moment than the expression: %s", cause.ID, e.Text)
			}
		}
	}
}
