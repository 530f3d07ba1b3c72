package remediate

import (
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// The approver reads why the value is this one, also if a bound and not the formula decides it.
func TestReasonExplainsTheValue(t *testing.T) {
	at := time.Unix(1e9, 0)
	scene := func(blocks float64) *guard.Scene {
		s := &guard.Scene{Now: at, Pods: []cluster.Pod{{Name: "vllm-0"}}}
		s.Rule.Limits = policy.Limits{}.OrDefaults()
		for signal, v := range map[string]float64{"kv_blocks_total": blocks, "kv_block_size": 16, "prompt_length_mean": 2000,
			"output_length_mean": 530,
			"requests_running":   70, "kv_usage": .9} {
			s.Evidence.Samples = append(s.Evidence.Samples,
				state.Sample{Signal: signal, Entity: state.Entity{Pod: "vllm-0"}, Value: v, At: at})
		}
		return s
	}
	for _, c := range []struct {
		from      int
		direction string
		blocks    float64
		to        int
		why       string
	}{
		{128, "lower", 11711, 56, "56 is what 85 % of 11711 blocks of 16 tokens hold at 2530 tokens a sequence."},
		{256, "lower", 11711, 64, "64 is as low as one step goes from 256 (max_factor 4); wanted was 62, what 85 % of 11711 blocks of 16 tokens hold at 2530 tokens a sequence."},
		{16, "lower", 800, 8, "8 is the nearest that floor 8 and ceiling 1024 allow; wanted was 4, what 85 % of 800 blocks of 16 tokens hold at 2530 tokens a sequence."},
		{8, "raise", 11711, 16, "16 is as high as one step goes from 8; the cache allows 62, what 85 % of 11711 blocks of 16 tokens hold at 2530 tokens a sequence."},
	} {
		to, why, err := compute(scene(c.blocks), c.from, c.direction)
		if err != nil || to != c.to || why != c.why {
			t.Errorf("%s from %d: %d, %q, %v; want %d, %q", c.direction, c.from, to, why, err, c.to, c.why)
		}
	}
	sglang := scene(187376)
	for i := range sglang.Evidence.Samples {
		if s := &sglang.Evidence.Samples[i]; s.Signal == "kv_block_size" {
			s.Value = 1
		}
	}
	if _, why, err := compute(sglang, 128, "lower"); err != nil ||
		!strings.Contains(why, "what 85 % of 187376 tokens of KV cache hold at 2530 tokens a sequence") {
		t.Errorf("an engine that counts tokens: %q, %v", why, err)
	}
}
