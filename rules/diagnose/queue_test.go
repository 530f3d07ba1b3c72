package diagnose

import (
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Requests wait. Three rules see the same queue: its length, the time in it and the late first
// token. A cause gets no more for three rules than for the one that says most about it.
func TestAlertsOfOneQueueCountOnce(t *testing.T) {
	c := rulestest.MustLoad(t)
	scores := func(symptoms ...state.Symptom) map[state.Cause]float64 {
		in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
		for _, s := range symptoms {
			rulestest.Attach(in, state.Sign{Symptom: s, Severity: state.Critical,
				Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm"}}, string(s), rulestest.Now)
		}
		v := weighAll(c, evidence.ArrangeScope(in, in.Scope, nil, c), in)
		out := map[state.Cause]float64{}
		for _, w := range v.ranked {
			out[w.cause.ID] = w.score
		}
		return out
	}
	three := scores("queue_buildup", "queue_time_high", "ttft_high")
	apart := scores("ttft_high", "itl_high")
	late, slow := scores("ttft_high"), scores("itl_high")
	for _, cause := range c.Causes() {
		most := scores(loudest(cause))[cause.ID]
		if three[cause.ID] != most {
			t.Errorf("%s: %g dB for three alerts of a queue, %g for the strongest", cause.ID, three[cause.ID], most)
		}
		if explains(cause, "ttft_high") && explains(cause, "itl_high") &&
			apart[cause.ID] != late[cause.ID]+slow[cause.ID]-cause.Prior {
			t.Errorf("%s: late first tokens and slow tokens are not one thing: %g dB", cause.ID, apart[cause.ID])
		}
	}
}

// loudest returns the symptom of a queue that says most about a cause.
func loudest(c *catalog.Cause) state.Symptom {
	best, most := state.Symptom("queue_buildup"), -99.0
	for _, s := range []state.Symptom{"queue_buildup", "queue_time_high", "ttft_high"} {
		d, ok := c.Explains[s]
		if !ok {
			d = unexplained
		}
		if d > most {
			best, most = s, d
		}
	}
	return best
}

func explains(c *catalog.Cause, s state.Symptom) bool { _, ok := c.Explains[s]; return ok }
