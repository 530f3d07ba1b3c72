package remediate_test

import (
	"math"
	"testing"
	"time"

	"paramedic/remediate/policy"
	"paramedic/state"
)

// isolate runs a restart until its worker no longer serves, and returns that time.
func isolate(t *testing.T, w *world) time.Time {
	t.Helper()
	w.plan()
	w.approve(sre)
	w.until(state.Intent)
	for w.actions[0].Journal["isolated"] == "" {
		w.step()
	}
	at, err := time.Parse(time.RFC3339Nano, w.actions[0].Journal["isolated"])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (w *world) drained() bool { return w.actions[0].Journal["drained"] != "" }

// A sample from before the isolation does not show that the worker is idle.
func TestDrainWaitsForALaterScrape(t *testing.T) { // 30
	for _, c := range []struct {
		name string
		late time.Duration // after the isolation
		want bool
	}{{"from before it", -time.Second, false}, {"of the same moment", 0, false}, {"while Services follow the label", time.Second,
		false}, {"from after it", 6 * time.Second, true}} {
		w := newWorld(t, restart, policy.Approve)
		at := isolate(t, w)
		w.scraped = func() time.Time { return at.Add(c.late) }
		for range 5 {
			w.step()
		}
		if w.drained() != c.want {
			t.Errorf("a scrape %s: drained %v (%s)", c.name, w.drained(), w.actions[0].Journal["drained_text"])
		}
	}
}

// The API server may answer late. The worker serves until then.
func TestIsolationTimeIsEndOfItsWrite(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.cluster.Before = func(string, string) error {
		w.clock.now = w.clock.now.Add(14 * time.Second)
		return nil
	}
	before := w.clock.now
	at := isolate(t, w)
	if p, err := w.cluster.Pod(t.Context(), "llm", "vllm-llama-1"); err != nil || p.Labels["serving"] == "yes" ||
		at.Sub(before) < 14*time.Second {
		t.Errorf("isolated %s after the intent: %v %v", at.Sub(before), p.Labels, err)
	}
}

func TestDrainNeedsAMeasuredZero(t *testing.T) { // 30
	for name, set := range map[string]func(v map[string]float64){
		"NaN":     func(v map[string]float64) { v["requests_running"] = math.NaN() },
		"missing": func(v map[string]float64) { delete(v, "requests_running") },
	} {
		w := newWorld(t, restart, policy.Approve)
		at := isolate(t, w)
		w.sick = func(pod string, seqs int) map[string]float64 {
			v := leaking(pod, seqs)
			set(v)
			return v
		}
		for w.clock.now.Before(at.Add(9 * time.Minute)) {
			w.step()
		}
		if w.drained() {
			t.Errorf("%s: %s", name, w.actions[0].Journal["drained_text"])
		}
	}
}
