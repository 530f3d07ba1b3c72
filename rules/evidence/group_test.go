package evidence

import (
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A group is one engine if only its leader takes requests, and several if each of its pods does.
func TestGroupsCountTheirServingPods(t *testing.T) {
	c := rulestest.MustLoad(t)
	for want, serving := range map[int][]string{2: {"a-0", "b-0"}, 4: {"a-0", "a-1", "b-0", "b-1"}} {
		ev := &state.Evidence{At: rulestest.Now}
		for _, pod := range []string{"a-0", "a-1", "b-0", "b-1"} {
			ev.Workers = append(ev.Workers, state.Worker{Namespace: "llm", Pod: pod, Pool: "wide-ep", Group: pod[:1]})
		}
		for _, pod := range serving {
			ev.Samples = append(ev.Samples, state.Sample{Signal: "requests_running", Value: 4, At: rulestest.Now,
				Entity: state.Entity{Namespace: "llm", Pool: "wide-ep", Pod: pod}})
		}
		v := ArrangeScope(&state.Incident{}, state.Scope{Namespace: "llm", Pool: "wide-ep"}, ev, c)
		if v.workers != want {
			t.Errorf("%d pods take requests: %d workers, want %d", len(serving), v.workers, want)
		}
		v.Release()
	}
}
