package remediate

import (
	"testing"

	"paramedic/state"
)

// What verification found is read at night: as percent, GiB and seconds, never 0.8733333 or 1.2e+09.
func TestVerificationReadsAsPeopleSayIt(t *testing.T) {
	a := &state.Action{Cause: "host_memory_leak", Params: map[string]string{}}
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
