package remediate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
)

func TestHalfOfTheReadingsMakeNoBaseline(t *testing.T) {
	for n, known := range map[int]bool{3: false, 4: true, 6: true} {
		s := calm(setEngineArgKind)
		s.Site.Timing.Samples = 12 // six readings
		s.Action.Verify.Before = map[string][]float64{"kv_usage": slices.Repeat([]float64{.9}, n)}
		if _, ok := s.Baseline()["kv_usage"]; ok != known {
			t.Errorf("%d of 6 readings: %t", n, ok)
		}
	}
}

func TestPauseAsLongAsTheWindowBeginsItAnew(t *testing.T) {
	const window = 5 * interval
	for late, kept := range map[time.Duration]int{0: 2, window: 2, window + moment: 1} {
		s := calm(setEngineArgKind)
		s.Action.Params["direction"] = "lower"
		each(s, "kv_usage", .9)
		s.Action.Verify.Before = map[string][]float64{"kv_usage": {.9}}
		if more := s.Observe(s.Now.Add(-late)); !more || len(s.Action.Verify.Before["kv_usage"]) != kept {
			t.Errorf("%s late: %v, more %t", late, s.Action.Verify.Before, more)
		}
	}
}

// A worker is known by its name: exporters differ in what they call its pool.
func TestWorkerIsReadWhateverItsPoolIsCalled(t *testing.T) {
	for _, pool := range []string{"vllm", "", "engine"} {
		s := calm(setEngineArgKind)
		sample(s, "kv_usage", "vllm-0", .5, 0)
		s.Evidence.Samples[0].Entity.Pool = pool
		if got, ok := s.Newest("kv_usage", "vllm-0"); !ok || got.Value != .5 {
			t.Errorf("pool %q: %v %t", pool, got, ok)
		}
	}
	s := calm(setEngineArgKind)
	sample(s, "kv_usage", "", .5, 0)
	s.Evidence.Samples[0].Entity.Pool = "engine"
	if _, ok := s.Newest("kv_usage", ""); ok {
		t.Error("another pool's value is this one's")
	}
}

func TestPoolIsReadAsTheKindThatItIs(t *testing.T) {
	for kind, want := range map[string]cluster.Ref{setEngineArgKind: {Namespace: "llm", Kind: "StatefulSet", Name: "vllm"}, restartWorkerKind: {Namespace: "llm", Kind: "LeaderWorkerSet", Name: "vllm"}} {
		s := calm(kind)
		if s.Action.Params["pool_kind"] = "LeaderWorkerSet"; kind == setEngineArgKind {
			s.Action.Target.Kind = "StatefulSet"
		}
		if got := s.PoolRef(); got != want {
			t.Errorf("%+v", got)
		}
	}
}

// What is missing, or cannot be, makes no number of sequences, and the reason says what it takes.
func TestSafeValueNeedsEachOfItsSignals(t *testing.T) {
	signals := []string{"kv_blocks_total", "kv_block_size", "prompt_length_mean", "output_length_mean"}
	for _, without := range append(signals, "") {
		for _, v := range []float64{-1, 0} {
			s := calm(setEngineArgKind)
			for _, signal := range signals {
				if signal != without {
					each(s, signal, 16)
				} else if signal != "kv_blocks_total" && v < 0 {
					each(s, signal, v)
				} else if signal == "kv_block_size" {
					each(s, signal, 0)
				}
			}
			if n, how := safeByTokens(s); strings.HasPrefix(how, "it takes") != (without != "") || n < 0 {
				t.Errorf("without %q: %d, %s", without, n, how)
			}
		}
	}
	s := calm(setEngineArgKind) // nothing at all
	each(s, "kv_blocks_total", 1000)
	if _, how := safeByTokens(s); !strings.HasPrefix(how, "it takes") {
		t.Error(how)
	}
}

func TestOnlyValueBetweenTheLimitsIsTaken(t *testing.T) {
	s := calm(setEngineArgKind)
	s.Rule.Floor, s.Rule.Ceiling = 64, 64
	if to, _, err := compute(s, 100, "lower"); to != 64 || err != nil {
		t.Errorf("%d %v", to, err)
	}
	s.Rule.Floor = 65
	if _, _, err := compute(s, 100, "lower"); err == nil || !strings.Contains(err.Error(), "the limits allow no value") {
		t.Errorf("%v", err)
	}
}

func TestOnlyMeasuredTroubleLeads(t *testing.T) {
	for base, leads := range map[float64]bool{0: false, .05: false, .06: true} {
		s := calm(setEngineArgKind)
		s.Action.Params["direction"] = "lower"
		if got := s.Leading(map[string]float64{"preemption_rate": base}); slices.Contains(got, "preemption_rate") != leads {
			t.Errorf("%g a second: %v", base, got)
		}
	}
}
