package remediate

import (
	"slices"
	"testing"

	"paramedic/state"
)

// What verification found is read at night: as percent, GiB and seconds, never 0.8733333 or 1.2e+09.
func TestVerificationReadsAsPeopleSayIt(t *testing.T) {
	a := &state.Action{Cause: "host_memory_leak", Params: map[string]string{}}
	a.Verify.Leading = []string{"container_memory"}
	a.Verify.Baseline = map[string]float64{"container_memory": 61e9, "kv_usage": 0.8733333, peerPrefix + "kv_usage": 0.5}
	a.Verify.Samples = map[string][]float64{"container_memory": {1.2e9, 1.2e9}, "kv_usage": {0.0048, 0.0048}, peerPrefix + "kv_usage": {0.25, 0.25}}
	verdict, text := judge(a, restartWorker{}.metrics(), 2)
	want := "better: kv_usage 87.3 % → 0.48 % (by its peers it would be 43.7 % untouched), container_memory 56.8 GiB → 1.12 GiB"
	if verdict != state.Better || text != want {
		t.Errorf("%s %q\nwant %q", verdict, text, want)
	}
	for _, kind := range []action{setEngineArg{}, restartWorker{}} {
		for _, m := range kind.metrics() {
			if m.unit == "" {
				t.Errorf("%s has no unit", m.signal)
			}
		}
	}
}

// Quantiles look back over the rollout, and where the trouble was named at its beginning, the baseline is nearly that of a healthy pool:
// first tokens that were late when the rollout ended and come sooner and sooner are no harm. Those that stay late are.
func TestWhatGetsWellAgainIsNoHarm(t *testing.T) {
	a := &state.Action{Cause: "kv_exhaustion", Params: map[string]string{"direction": "lower"}}
	a.Verify.Leading = []string{"preemption_rate", "kv_usage"}
	a.Verify.Baseline = map[string]float64{"preemption_rate": 0.35, "kv_usage": 0.99, "ttft_p95": 8.3}
	calm := slices.Repeat([]float64{0}, 8)
	for name, c := range map[string]struct {
		ttft []float64
		want state.Verdict
	}{
		"falling": {[]float64{18, 18, 17.9, 17.6, 17.5, 17.1, 16.9, 4}, state.Better},
		"late":    {[]float64{18, 18, 17.9, 17.6, 18.1, 18, 18.2, 17.9}, state.Worse},
		"rising":  {[]float64{4, 5, 9, 16, 17.5, 18, 19, 21}, state.Worse},
	} {
		a.Verify.Samples = map[string][]float64{"preemption_rate": calm, "kv_usage": slices.Repeat([]float64{.65}, 8), "ttft_p95": c.ttft}
		if got, text := judge(a, setEngineArg{}.metrics(), 8); got != c.want {
			t.Errorf("%s: %s, %s", name, got, text)
		}
	}
}
