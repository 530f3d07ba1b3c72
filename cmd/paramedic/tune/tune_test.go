package tune

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/lab/engine"
)

// Models with the size of a token in the KV cache, computed by hand.
var (
	llama8B  = Model{Layers: 32, KVHeads: 8, HeadDim: 128, WeightBytes: 16.06e9, ActiveParams: 8.03e9}
	llama70B = Model{Layers: 80, KVHeads: 8, HeadDim: 128, WeightBytes: 70.6e9, ActiveParams: 70.6e9} // in fp8
	deepseek = Model{Layers: 61, KVHeads: 128, HeadDim: 56, Latent: 512 + 64}
)

func TestKVBytesPerTokenAndPerGPU(t *testing.T) {
	for _, c := range []struct {
		name          string
		model         Model
		bytes         float64
		tp            int
		whole, oneGPU float64
	}{
		{"Llama 3 8B in bf16", llama8B, 2, 1, 131072, 131072},
		{"Llama 3 70B in bf16 on two", llama70B, 2, 2, 327680, 163840},
		{"in fp8 half", llama70B, 1, 2, 163840, 81920},
		{"more ranks than heads keep a whole head each", llama70B, 2, 16, 327680, 40960},
		{"a latent vector is small, and whole on every rank", deepseek, 2, 8, 70272, 70272},
	} {
		if got := c.model.kvBytesPerToken(c.bytes); got != c.whole {
			t.Errorf("%s: %g bytes a token, want %g", c.name, got, c.whole)
		}
		if got := c.model.kvBytesPerGPU(c.bytes, c.tp); got != c.oneGPU {
			t.Errorf("%s: %g bytes a token on each GPU, want %g", c.name, got, c.oneGPU)
		}
	}
}

// 2 × 80 GB at 0.9, less 70.6 GB of weights and 12 GB besides, are 61.4 GB: 11,711 blocks of 16
// tokens of 327,680 bytes. On one GPU the weights would take all there is; a formula that forgets
// the division among the ranks finds no room on two either.
func TestTensorParallelismDividesWeightsAndHeads(t *testing.T) {
	h := Hardware{MemoryBytes: 80e9, Utilization: 0.9, OverheadBytes: 6e9, TensorParallel: 2}
	if got := h.kvBlocks(llama70B, 2, 16); got != 11711 {
		t.Errorf("%d blocks, want 11,711", got)
	}
	cost := engine.Cost{KVBytesPerToken: 327680, MemoryBytes: 160e9, WeightBytes: 70.6e9, OverheadBytes: 12e9}
	if got, want := h.kvBlocks(llama70B, 2, 16), cost.Blocks(0.9); got != want {
		t.Errorf("%d blocks, the lab's engine has %d", got, want)
	}
	h.TensorParallel = 1
	if got := h.kvBlocks(llama70B, 2, 16); got != 0 {
		t.Errorf("%d blocks on one GPU, want none", got)
	}
	h = Hardware{MemoryBytes: 16e9, Utilization: 1, TensorParallel: 1}
	if got := h.kvBlocks(Model{Layers: 32, KVHeads: 8, HeadDim: 128}, 2, 16) * 16; got != 122064 {
		t.Errorf("16 GB hold %d tokens of Llama 3 8B, want 122,064", got)
	}
}

func TestSafeMaxNumSeqs(t *testing.T) {
	for _, c := range []struct {
		blocks, size int
		average      float64
		want, graph  int
	}{{11711, 16, 1400, 113, 112}, {11711, 16, 2000, 79, 72}, {5943, 16, 4096, 19, 16}, {300, 16, 800, 5, 5}, {100, 16, 8000, 0, 0}} {
		if got := safeMaxNumSeqs(c.blocks, c.average/float64(c.size)); got != c.want || graphSize(got) != c.graph {
			t.Errorf("%d blocks, %g tokens: %d, in eights %d; want %d and %d", c.blocks, c.average, got, graphSize(got), c.want, c.graph)
		}
	}
}

// Two H100: weights 70.6e9 / (2 · 3.35e12 · 0.85) = 12.4 ms and 1 ms besides, a KV token 163,840 /
// (3.35e12 · 0.5) = 97.8 ns, a prompt token 2 · 70.6e9 / (2 · 989e12 · 0.35) = 204 µs.
func TestStepTimeFollowsTheHardware(t *testing.T) {
	h := gpus["h100"]
	h.TensorParallel = 2
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.005*want {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("an empty step", h.stepSeconds(llama70B, 2, step{}), 0.0134)
	near("64 sequences of 1000 tokens", h.stepSeconds(llama70B, 2, step{sequences: 64, context: 1000}), 0.0134+64*(30e-6+1000*97.8e-9))
	near("a prompt token", h.prefillSeconds(llama70B), 204e-6)
	near("a prompt of 3000 in chunks of 2048", h.ttftIdle(llama70B, 2, 3000, 2048), 2*0.0134+3000*204e-6)
	// (50 ms − 13.4 ms) / 127.8 µs
	if got := h.seqsWithin(llama70B, 2, load{average: 1000}, 0.05); got != 286 {
		t.Errorf("%d sequences within 50 ms, want 286", got)
	}
	// and with a prompt of 750 for each answer of 250 tokens: (50 ms − 13.4 ms) / (127.8 µs + 3 ·
	// 204 µs)
	chat := load{average: 1000, prompt: 750, answer: 250}
	if got := h.seqsWithin(llama70B, 2, chat, 0.05); got != 49 {
		t.Errorf("%d sequences within 50 ms beside their prefill, want 49", got)
	}
	// 49 sequences of 875 tokens in the mean: 13.4 ms + 49 · (30 µs + 875 · 97.8 ns + 3 · 204 µs)
	near("tokens a second of 49 sequences", h.tokensPerSecond(llama70B, 2, chat, 49), 49/0.04906)
	if got := h.seqsWithin(llama70B, 2, load{average: 1000}, 0.01); got > 0 {
		t.Errorf("%d sequences within 10 ms, less than reading the weights takes", got)
	}
}

func TestChunksFollowTheUseCaseAndThePause(t *testing.T) {
	perToken := func(seconds float64) func(int) float64 { return func(n int) float64 { return float64(n) * seconds } }
	for _, c := range []struct {
		use   string
		seqs  int
		pause func(int) float64
		want  int
	}{
		{"chat", 100, nil, 2048}, {"batch", 100, nil, 16384}, {"rag", 100, nil, 8192}, {"agents", 100, nil, 4096},
		{"chat", 100, perToken(204e-6), 2048},  // 418 ms of 500
		{"code", 100, perToken(204e-6), 1024},  // 209 ms of 300; 2048 would be 418
		{"chat", 100, perToken(10), 512},       // never smaller
		{"batch", 100, perToken(10), 16384},    // no person reads along
		{"chat", 3000, nil, 4096},              // vLLM wants no fewer tokens than sequences
		{"rag", 100, perToken(204e-6), 2048},   // 418 ms of 800; 4096 would be 836
		{"code", 1000, perToken(204e-6), 1024}, // both
	} {
		u, err := useCaseOf(c.use)
		if err != nil {
			t.Fatal(err)
		}
		if got := chunkFor(u, c.seqs, c.pause); got != c.want {
			t.Errorf("%s with %d sequences: chunks of %d, want %d", c.use, c.seqs, got, c.want)
		}
	}
	chat, _ := useCaseOf("chat")
	if got := chat.answerWithin(); got != 191 {
		t.Errorf("an answer of %d tokens within 10 s, want (10 − 0.5) / 0.05 + 1 = 191", got)
	}
}

func TestModelConfigurations(t *testing.T) {
	dir := t.TempDir()
	put := func(name, data string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	dense := put("config.json", `{"num_hidden_layers":32,"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"torch_dtype":"bfloat16","max_position_embeddings":8192}`)
	c, err := readModelConfig(dense)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.shape(); err != nil || m.KVHeads != 8 || m.HeadDim != 128 || m.Layers != 32 || m.mixed() || c.params(m) != 8029995008 ||
		c.experts() {
		t.Errorf("%+v with %.0f parameters, want 8 heads of 128 and 8,029,995,008: %v", m, c.params(m), err)
	}
	put("model.safetensors.index.json", `{"metadata":{"total_size":16060522496}}`)
	if c, err = readModelConfig(dir); err != nil || c.weightsFromIndex != 16060522496 {
		t.Errorf("weights of %.0f bytes beside the configuration: %v", c.weightsFromIndex, err)
	}
	sees := put("sees.json", `{"torch_dtype":"bfloat16","text_config":{"num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,"head_dim":64,"num_experts":16,"sliding_window":4096,"use_sliding_window":false},"quantization_config":{"quant_method":"fp8"}}`)
	if c, err = readModelConfig(sees); err != nil {
		t.Fatal(err)
	}
	m, err := c.shape()
	if n, ok := c.weightBytes(); err != nil || n != 1 || !ok || m.KVHeads != 40 || m.HeadDim != 64 || m.Layers != 48 || !c.experts() ||
		m.mixed() || c.dtype() != "bfloat16" {
		t.Errorf("%+v, weights of %g bytes: %v", m, n, err)
	}
	if _, ok := (&modelConfig{TorchDtype: "bfloat16", Quantization: &quantization{Method: "compressed-tensors"}}).weightBytes(); ok {
		t.Error("the size of weights is guessed where the quantization does not say it")
	}
	if c, err = readModelConfig(put("else.json", `{"model_type":"bert"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.shape(); err == nil || !strings.Contains(err.Error(), "--layers") {
		t.Errorf("a configuration without layers: %v", err)
	}
}

// The KV cache of layers, from published configurations, as vLLM computes it. The blocks of Qwen3.5
// 9B and of Qwen3.6 27B, 528 and 784 tokens, are those that vLLM logs.
func TestLayersWithWindowOrStateTakeFewerBlocks(t *testing.T) {
	for _, c := range []struct {
		name, config         string
		full, window, states int
		group, block         int
		tokens, blocks       float64 // of one request on one GPU, in blocks of 16 where no state makes them larger
	}{
		{"all alike", `{"model_type":"llama","num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128}`, 80, 0, 0, 80, 16, 4096, 256},
		{"a window that is switched off", `{"model_type":"qwen3","num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
			"sliding_window":4096,"use_sliding_window":false,"max_window_layers":36}`, 36, 0, 0, 36, 16, 4096, 256},
		{"from a layer on (Qwen2)", `{"model_type":"qwen2","num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"head_dim":128,
			"sliding_window":1024,"use_sliding_window":true,"max_window_layers":21}`, 21, 7, 0, 7, 16, 4096, 3*256 + 65},
		{"everywhere (Mistral 7B)", `{"model_type":"mistral","num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"sliding_window":4096}`,
			0, 32, 0, 32, 16, 16384, 257},
		{"every other (Gemma 2)", `{"model_type":"gemma2","num_hidden_layers":42,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,"sliding_window":4096}`,
			21, 21, 0, 21, 16, 8192, 512 + 257},
		{"five of six (Gemma 3)", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_hidden_layers":62,"num_attention_heads":32,"num_key_value_heads":16,
			"head_dim":128,"sliding_window":1024}}`, 10, 52, 0, 10, 16, 3200, 200 + 6*65},
		{"shorter than the window", `{"model_type":"gemma3_text","num_hidden_layers":62,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,"sliding_window":1024}`,
			10, 52, 0, 10, 16, 800, 7 * 50},
		{"by their list (gpt-oss)", `{"model_type":"gpt_oss","num_hidden_layers":4,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"sliding_window":128,
			"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]}`, 2, 2, 0, 2, 16, 1600, 100 + 9},
		{"chunks (Llama 4)", `{"model_type":"llama4_text","num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"attention_chunk_size":8192}`,
			12, 36, 0, 12, 16, 16384, 1024 + 3*513},
		{"shared by the last (Gemma 3n)", `{"model_type":"gemma3n_text","num_hidden_layers":5,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"sliding_window":512,
			"num_kv_shared_layers":2,"layer_types":["sliding_attention","full_attention","full_attention","sliding_attention","full_attention"]}`, 2, 1, 0, 1, 16, 1600, 2*100 + 33},
		{"linear attention (Qwen3-Next)", `{"model_type":"qwen3_next","num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"full_attention_interval":4,
			"linear_conv_kernel_dim":4,"linear_num_key_heads":16,"linear_key_head_dim":128,"linear_num_value_heads":32,"linear_value_head_dim":128}`, 12, 0, 36, 12, 544, 5440, 10 + 3*2},
		{"with states in fp32 (Qwen3.5 9B)", `{"text_config":{"model_type":"qwen3_5_text","dtype":"bfloat16","num_hidden_layers":32,"num_attention_heads":16,"num_key_value_heads":4,"head_dim":256,
			"full_attention_interval":4,"mamba_ssm_dtype":"float32","linear_conv_kernel_dim":4,"linear_num_key_heads":16,"linear_key_head_dim":128,"linear_num_value_heads":32,
			"linear_value_head_dim":128}}`, 8, 0, 24, 8, 528, 5280, 10 + 3*2},
		{"the same (Qwen3.6 27B)", `{"model_type":"qwen3_5_text","num_hidden_layers":64,"num_attention_heads":24,"num_key_value_heads":4,"head_dim":256,
			"full_attention_interval":4,"mamba_ssm_dtype":"float32","linear_conv_kernel_dim":4,"linear_num_key_heads":16,"linear_key_head_dim":128,"linear_num_value_heads":48,
			"linear_value_head_dim":128}`, 16, 0, 48, 16, 784, 7840, 10 + 3*2},
	} {
		config, err := parseModelConfig([]byte(c.config))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		m, err := config.shape()
		if err != nil || m.Layers != c.full || m.WindowLayers != c.window || m.StateLayers != c.states || m.groupLayers() != c.group {
			t.Errorf("%s: %+v in groups of %d: %v", c.name, m, m.groupLayers(), err)
			continue
		}
		size := m.fittingBlockSize(16, 2, 1)
		if got := m.blocksOf(c.tokens, size); size != c.block || got != c.blocks {
			t.Errorf("%s: %g tokens take %g blocks of %d, want %g of %d", c.name, c.tokens, got, size, c.blocks, c.block)
		}
	}
}

// Sparse attention keeps 656 bytes and an indexer's key of 128 with its scale. In another type it
// keeps the latent vector of 576 numbers, and the same key.
func TestSparseAttentionKeepsLatentAndIndex(t *testing.T) {
	config, err := parseModelConfig([]byte(`{"model_type":"deepseek_v32","num_hidden_layers":61,"num_attention_heads":128,"kv_lora_rank":512,"qk_rope_head_dim":64,"index_head_dim":128}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := config.shape()
	if err != nil {
		t.Fatal(err)
	}
	for kvDtype, want := range map[string]float64{"auto": 656 + 132, "fp8": 656 + 132, "bf16": 1152 + 132} {
		number := map[string]float64{"auto": 2, "fp8": 1, "bf16": 2}[kvDtype]
		if m.LatentBytes = config.latentBytes(m, kvDtype, number); m.LatentBytes != want || m.kvBytesPerGPU(number, 8) != 61*want {
			t.Errorf("%s: %g bytes a layer, want %g", kvDtype, m.LatentBytes, want)
		}
	}
}

// Layers that cannot be computed are refused with a remedy, and never counted as if they kept
// everything.
func TestUnsupportedLayersAreRefused(t *testing.T) {
	const shape = `"num_hidden_layers":4,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128`
	for config, want := range map[string]string{
		`{"model_type":"nemotron_h",` + shape + `,"hybrid_override_pattern":"M-M*"}`:                                                   "hybrid_override_pattern",
		`{"model_type":"jamba",` + shape + `,"attn_layer_period":8}`:                                                                   "attn_layer_period",
		`{"model_type":"gemma4_text",` + shape + `,"global_head_dim":512}`:                                                             "global_head_dim",
		`{"model_type":"kimi_linear",` + shape + `,"linear_attn_config":{"full_attn_layers":[4]}}`:                                     "linear_attn_config",
		`{` + shape + `,"layer_types":["mamba","attention","mamba","attention"]}`:                                                      `kind "mamba"`,
		`{` + shape + `,"layer_types":["full_attention"]}`:                                                                             "1 layers, num_hidden_layers is 4",
		`{` + shape + `,"layer_types":["sliding_attention","full_attention","full_attention","full_attention"]}`:                       "size is missing (sliding_window)",
		`{` + shape + `,"full_attention_interval":4}`:                                                                                  "states of unknown size",
		`{` + shape + `,"sliding_window":512,"sliding_window_pattern":"LLLG"}`:                                                         "sliding_window_pattern",
		`{` + shape + `,"v_head_dim":64}`:                                                                                              "values 64",
		`{"num_hidden_layers":4,"text_config":null}`:                                                                                   "num_attention_heads",
		`{` + shape + `,"layer_types":["full_attention","full_attention","full_attention","full_attention"],"num_kv_shared_layers":4}`: "num_kv_shared_layers",
	} {
		c, err := parseModelConfig([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.shape(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--layers") {
			t.Errorf("%s: %+v, %v; want a word on %s", config, m, err, want)
		}
	}
}

// Engines divide attention heads among all GPUs. They divide KV heads too, or keep one of them on
// several GPUs.
func TestInvalidTensorParallelismIsRefused(t *testing.T) {
	for _, c := range []struct {
		model Model
		tp    int
		want  string // empty: it is taken
	}{
		{Model{Heads: 64, KVHeads: 8}, 4, ""},
		{Model{Heads: 64, KVHeads: 8}, 16, ""}, // each KV head twice
		{Model{Heads: 64, KVHeads: 8}, 3, "64 attention heads, so engines refuse to start; use 1, 2, 4, 8, 16, 32, 64"},
		{Model{Heads: 40, KVHeads: 8}, 5, "8 KV heads are neither a multiple"},
		{Model{KVHeads: 8}, 3, "8 KV heads are neither a multiple"}, // of flags, without attention heads
		{Model{KVHeads: 8}, 2, ""},
		{Model{Heads: 24, KVHeads: 4}, 8, ""},
		{Model{Heads: 24, KVHeads: 4}, 6, "4 KV heads are neither"},
		{Model{Heads: 128, KVHeads: 128, Latent: 576}, 8, ""},
		{Model{Heads: 128, KVHeads: 128, Latent: 576}, 6, "128 attention heads"},
	} {
		err := c.model.parallel(c.tp)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v on %d: %v, want %q", c.model, c.tp, err, c.want)
		}
	}
}

// If the GPU's speed is unknown, memory alone must not set the cap. A measured time between tokens
// within its target may raise it.
func TestUnknownGPUSpeedCapsSequences(t *testing.T) {
	chat, err := useCaseOf("chat")
	if err != nil {
		t.Fatal(err)
	}
	pool := poolInput{engine: engines["vllm"], blocks: 100_000, load: load{average: 500}}
	s := Sheet{blockSize: 16}
	for _, c := range []struct {
		itl  float64
		pool func(*poolInput)
		want int
	}{
		{0, func(*poolInput) {}, 512},
		{0.04, func(*poolInput) {}, 64},
		{0.04, func(p *poolInput) { p.running, p.inTime = 150, true }, 144},
		{0.04, func(p *poolInput) { p.running = 150 }, 64},
		{0, func(p *poolInput) { p.blocks = 1000 }, 24}, // int(1000 · 0.85 / 31.25) = 27
	} {
		p := pool
		c.pool(&p)
		if got, why := s.sequences(chat.targeted(0, c.itl, 0), p); got != c.want {
			t.Errorf("%g s a token, %+v: %d, want %d (%s)", c.itl, p, got, c.want, why)
		}
	}
}

// Measured values are compared with the targets. Low demand is no fault of the engine.
func TestLiveTargets(t *testing.T) {
	chat, err := useCaseOf("chat")
	if err != nil {
		t.Fatal(err)
	}
	u := chat.targeted(0.4, 0, 1000)
	pool := func(ttft, made, waiting, kv float64) LivePool {
		one := func(v float64) liveSignal { return liveSignal{min: v, max: v, mean: v} }
		return LivePool{read: map[string]liveSignal{"ttft_p95": one(ttft), "e2e_p95": one(8), "generation_tokens_rate": one(made),
			"requests_waiting": one(waiting), "kv_usage": one(kv)}}
	}
	for _, c := range []struct {
		name  string
		pool  LivePool
		want  [4]Verdict
		why   string
		fault bool
	}{
		{"well", pool(0.3, 1200, 0, 0.5), [4]Verdict{targetMet, targetUnknown, targetMet, targetMet}, "slowest worker", false},
		{"little is asked for", pool(0.3, 200, 0, 0.1), [4]Verdict{targetMet, targetUnknown, targetMet, targetUnknown}, "slowest worker",
			false},
		{"full", pool(2, 900, 30, 0.99), [4]Verdict{targetMissed, targetUnknown, targetMet, targetMissed}, "requests wait for KV cache", true},
		{"no slots", pool(2, 1200, 30, 0.4), [4]Verdict{targetMissed, targetUnknown, targetMet, targetMet}, "KV cache has room", true},
		{"long prompts", pool(2, 1200, 0, 0.4), [4]Verdict{targetMissed, targetUnknown, targetMet, targetMet}, "prefill is slow", true},
	} {
		got := c.pool.targets(u)
		if len(got) != 4 || got[0].Verdict != c.want[0] || got[1].Verdict != c.want[1] || got[2].Verdict != c.want[2] ||
			got[3].Verdict != c.want[3] || !strings.Contains(got[0].Why, c.why) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if (Advice{Targets: got}).missed() != c.fault {
			t.Errorf("%s: a target that the user gave and that is missed: want %t", c.name, c.fault)
		}
	}
	if got := pool(2, 0, 0, 0).targets(chat); (Advice{Targets: got}).missed() {
		t.Errorf("a missed target of the use case is a finding: %+v", got)
	}
}

// The time of the whole answer is a target, too. Llama 3.3 70B on four H100: 399 tokens every 50 ms
// take 20 s, not 10.
func TestWholeAnswerTargetIsComputed(t *testing.T) {
	chat, err := useCaseOf("chat")
	if err != nil {
		t.Fatal(err)
	}
	h := gpus["h100"]
	h.Utilization, h.OverheadBytes, h.TensorParallel = 0.9, 4<<30, 4
	bf16 := llama70B
	bf16.WeightBytes = 141e9
	for _, c := range []struct {
		name   string
		e2e    float64 // the user's; 0: the use case's
		prompt float64
		answer float64
		want   Verdict
		why    string
		fault  bool
	}{
		{"the use case's", 0, 1200, 400, targetMissed, "all with 24 sequences at a time", false},
		{"one's own", 10, 1200, 400, targetMissed, "answers of up to 198 tokens are in time", true},
		{"short", 10, 1200, 150, targetPossible, "plus the time in the queue", false},
		{"long enough", 30, 1200, 400, targetPossible, "on average for the others, with 88 sequences", false},
		{"too short for one alone", 3, 1200, 400, targetMissed, "fewer sequences alone do not help; no --tensor-parallel-size", true},
		{"prefill alone is too late", 0.02, 1200, 1, targetMissed, "idle worker: no --tensor-parallel-size", true},
		{"lengths are not known", 10, 0, 0, targetUnknown, "--answer-tokens", false},
	} {
		s := Sheet{model: &bf16, hardware: &h, kvBytes: 2, blockSize: 16, load: load{average: 1600, prompt: c.prompt, answer: c.answer}}
		a, err := s.Advise(chat.whole(c.e2e))
		if err != nil {
			t.Fatal(err)
		}
		got := a.Targets[2]
		if got.Name != "Whole answer" || got.Verdict != c.want || !strings.Contains(got.Why, c.why) || a.Finding != c.fault {
			t.Errorf("%s: %+v, a finding: %t", c.name, got, a.Finding)
		}
		if between := a.Targets[1]; between.Name != "Time between tokens, mean" {
			t.Errorf("the computed time between tokens is a mean, and is called %q", between.Name)
		}
	}
}

// Measured times of whole answers are compared with the target, with the reason if they miss it.
func TestWholeAnswerTargetIsMeasured(t *testing.T) {
	chat, err := useCaseOf("chat")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ttft, itl, e2e, answer float64
		want                   Verdict
		why                    string
	}{
		{0.3, 0.04, 9, 200, targetMet, "slowest"},
		{6, 0.04, 12, 200, targetMissed, "the first token is late"},
		{0.3, 0.08, 20, 200, targetMissed, "tokens are slow"},
		{0.3, 0.04, 20, 450, targetMissed, "answers of 450 tokens"},
		{0.3, 0.04, 20, 50, targetMissed, "max_tokens"},
	} {
		read := map[string]liveSignal{}
		for id, v := range map[string]float64{"ttft_p95": c.ttft, "itl_p95": c.itl, "e2e_p95": c.e2e, "output_length_mean": c.answer} {
			read[id] = liveSignal{min: v, max: v, mean: v}
		}
		got := LivePool{read: read}.targets(chat.whole(10))
		if w := got[2]; w.Verdict != c.want || !strings.Contains(w.Why, c.why) ||
			(Advice{Targets: got}).missed() != (c.want == targetMissed) {
			t.Errorf("%+v: %+v", c, w)
		}
	}
}

func TestSizesHaveUnits(t *testing.T) {
	for s, want := range map[string]float64{"80": 80 << 30, "80GiB": 80 << 30, "80GB": 80e9, "81559MiB": 81559 << 20, "1.5 TB": 1.5e12,
		"0": 0} {
		if got, err := parseSize("gpu-memory", s); err != nil || got != want {
			t.Errorf("%q is %g, want %g: %v", s, got, want, err)
		}
	}
	for _, s := range []string{"", "x", "-1", "80 parsecs", "NaN", "Inf"} {
		if got, err := parseSize("gpu-memory", s); err == nil {
			t.Errorf("%q is taken for %g", s, got)
		}
	}
}
