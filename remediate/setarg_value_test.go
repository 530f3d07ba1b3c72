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
		{128, "lower", 11711, 56, "85 % of 11711 KV blocks of 16 tokens hold 62 requests of 2530 tokens, rounded down to 56."},
		{128, "lower", 10418, 56, "85 % of 10418 KV blocks of 16 tokens hold 56 requests of 2530 tokens."},
		{256, "lower", 11711, 64, "One step from 256 does not go below 64 (max_factor 4). 85 % of 11711 KV blocks of 16 tokens hold 62 requests of 2530 tokens."},
		{16, "lower", 800, 8, "The limits allow 8 to 1024 (floor, ceiling), and 4 was wanted. 85 % of 800 KV blocks of 16 tokens hold 4 requests of 2530 tokens."},
		{8, "raise", 11711, 16, "One step from 8 does not go above 16. 85 % of 11711 KV blocks of 16 tokens hold 62 requests of 2530 tokens."},
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
		!strings.Contains(why, "85 % of 187376 tokens of KV cache hold 62 requests of 2530 tokens") {
		t.Errorf("an engine that counts tokens: %q, %v", why, err)
	}
}

// A vLLM flag holds for each data-parallel rank, SGLang's with attention of its own for all ranks.
func TestValueIsForOneRankOrForAll(t *testing.T) {
	vllm := func(s *guard.Scene) {
		s.Workload.Containers[0].Args = []string{"--model=m", "--data-parallel-size=8", "--max-num-seqs=64"}
		each(s, "requests_running", 8*64)
		each(s, "kv_usage", .7)
	}
	sglang := func(s *guard.Scene) {
		s.Workload.Containers[0] = cluster.Container{Name: "sglang", Image: "lmsysorg/sglang",
			Args: []string{"--model-path=m", "--dp-size=8", "--enable-dp-attention", "--max-running-requests=1024"}}
		each(s, "requests_running", 8*120)
		each(s, "kv_usage", .99)
		each(s, "kv_blocks_total", 480000) // of one rank
		each(s, "kv_block_size", 1)
		each(s, "prompt_length_mean", 3000)
		each(s, "output_length_mean", 960)
	}
	for direction, c := range map[string]struct {
		set  func(*guard.Scene)
		want string
	}{"raise": {vllm, "max_num_seqs 64 → 72"}, "lower": {sglang, "max_running_requests 1024 → 824"}} {
		if s, err := drafted(direction, c.set); err != nil || s.Action.Change != c.want {
			t.Errorf("%s: %q %v", direction, s.Action.Change, err)
		}
	}
	unread := func(s *guard.Scene) {
		s.Workload.Containers[0].Args = []string{"--model=m", "--data-parallel-size=$(DP)", "--max-num-seqs=64"}
	}
	for _, direction := range []string{"raise", "lower"} {
		if s, err := drafted(direction, unread); err == nil {
			t.Errorf("%s: %q, although the ranks cannot be read", direction, s.Action.Change)
		}
	}
	s := sceneOf(restartWorkerKind)
	s.Workload.Containers[0].Args = []string{"--data-parallel-size=8", "--max-num-seqs=64"}
	each(s, "requests_running", 100) // of 512
	if got := answer(t.Context(), s, "capacity"); strings.Contains(got.Reason, "195 %") {
		t.Error(got.Reason)
	}
}
