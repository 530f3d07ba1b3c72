package remediate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
)

func TestHalfTheReadingsMakeNoBaseline(t *testing.T) {
	for n, known := range map[int]bool{3: false, 4: true, 6: true} {
		s := sceneOf(setEngineArgKind)
		s.Site.Timing.Samples = 12 // six readings
		s.Action.Verify.Before = map[string][]float64{"kv_usage": slices.Repeat([]float64{.9}, n)}
		if _, ok := s.Baseline()["kv_usage"]; ok != known {
			t.Errorf("%d of 6 readings: %t", n, ok)
		}
	}
}

func TestLongPauseRestartsTheBaseline(t *testing.T) {
	const window = 5 * interval
	for late, kept := range map[time.Duration]int{0: 2, window: 2, window + moment: 1} {
		s := sceneOf(setEngineArgKind)
		s.Action.Params["direction"] = "lower"
		each(s, "kv_usage", .9)
		s.Action.Verify.Before = map[string][]float64{"kv_usage": {.9}}
		if more := s.Observe(s.Now.Add(-late)); !more || len(s.Action.Verify.Before["kv_usage"]) != kept {
			t.Errorf("%s late: %v, more %t", late, s.Action.Verify.Before, more)
		}
	}
}

// A worker is matched by its name, because exporters differ in the pool's name.
func TestWorkerIsMatchedByNameNotPool(t *testing.T) {
	for _, pool := range []string{"vllm", "", "engine"} {
		s := sceneOf(setEngineArgKind)
		sample(s, "kv_usage", "vllm-0", .5, 0)
		s.Evidence.Samples[0].Entity.Pool = pool
		if got, ok := s.Newest("kv_usage", "vllm-0"); !ok || got.Value != .5 {
			t.Errorf("pool %q: %v %t", pool, got, ok)
		}
	}
	s := sceneOf(setEngineArgKind)
	sample(s, "kv_usage", "", .5, 0)
	s.Evidence.Samples[0].Entity.Pool = "engine"
	if _, ok := s.Newest("kv_usage", ""); ok {
		t.Error("another pool's value is this one's")
	}
}

func TestPoolIsReadByItsOwnKind(t *testing.T) {
	for kind, want := range map[string]cluster.Ref{setEngineArgKind: {Namespace: "llm", Kind: "StatefulSet", Name: "vllm"},
		restartWorkerKind: {Namespace: "llm", Kind: "LeaderWorkerSet", Name: "vllm"}} {
		s := sceneOf(kind)
		if s.Action.Params["pool_kind"] = "LeaderWorkerSet"; kind == setEngineArgKind {
			s.Action.Target.Kind = "StatefulSet"
		}
		if got := s.PoolRef(); got != want {
			t.Errorf("%+v", got)
		}
	}
}

// A missing or impossible signal gives no number of sequences, and the reason names the signals
// needed.
func TestSafeValueNeedsEachOfItsSignals(t *testing.T) {
	signals := []string{"kv_blocks_total", "kv_block_size", "prompt_length_mean", "output_length_mean"}
	for _, without := range append(signals, "") {
		for _, v := range []float64{-1, 0} {
			s := sceneOf(setEngineArgKind)
			for _, signal := range signals {
				if signal != without {
					each(s, signal, 16)
				} else if signal != "kv_blocks_total" && v < 0 {
					each(s, signal, v)
				} else if signal == "kv_block_size" {
					each(s, signal, 0)
				}
			}
			if n, how := safeByTokens(s, 1, false); strings.HasPrefix(how, "the formula needs") != (without != "") || n < 0 {
				t.Errorf("without %q: %d, %s", without, n, how)
			}
		}
	}
	s := sceneOf(setEngineArgKind) // nothing at all
	each(s, "kv_blocks_total", 1000)
	if _, how := safeByTokens(s, 1, false); !strings.HasPrefix(how, "the formula needs") {
		t.Error(how)
	}
}

func TestSingleAllowedValueIsTaken(t *testing.T) {
	s := sceneOf(setEngineArgKind)
	s.Rule.Floor, s.Rule.Ceiling = 64, 64
	if to, _, err := compute(s, 100, "lower"); to != 64 || err != nil {
		t.Errorf("%d %v", to, err)
	}
	s.Rule.Floor = 65
	if _, _, err := compute(s, 100, "lower"); err == nil || !strings.Contains(err.Error(), "the limits allow no value") {
		t.Errorf("%v", err)
	}
}

func TestMeasuredSymptomLeads(t *testing.T) {
	for base, leads := range map[float64]bool{0: false, .05: false, .06: true} {
		s := sceneOf(setEngineArgKind)
		s.Action.Params["direction"] = "lower"
		if got := s.Leading(map[string]float64{"preemption_rate": base}); slices.Contains(got, "preemption_rate") != leads {
			t.Errorf("%g a second: %v", base, got)
		}
	}
}
