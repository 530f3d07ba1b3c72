package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/lab"
)

// Models and what a token of theirs takes in the KV cache, worked out by hand.
var (
	llama8B  = tuneModel{Layers: 32, KVHeads: 8, HeadDim: 128, WeightBytes: 16.06e9, ActiveParams: 8.03e9}
	llama70B = tuneModel{Layers: 80, KVHeads: 8, HeadDim: 128, WeightBytes: 70.6e9, ActiveParams: 70.6e9} // in fp8
	deepseek = tuneModel{Layers: 61, KVHeads: 128, HeadDim: 56, Latent: 512 + 64}
)

func TestKVBytesOfATokenAndOfItsShare(t *testing.T) {
	for _, c := range []struct {
		name          string
		model         tuneModel
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

// 2 × 80 GB at 0.9, less 70.6 GB of weights and 12 GB besides, are 61.4 GB: 11,711 blocks of 16 tokens of 327,680 bytes. On one GPU the
// weights would take all there is; a formula that forgets the division among the ranks finds no room on two either.
func TestTensorParallelismDividesWeightsAndHeads(t *testing.T) {
	h := tuneHardware{MemoryBytes: 80e9, Utilization: 0.9, OverheadBytes: 6e9, TensorParallel: 2}
	if got := h.kvBlocks(llama70B, 2, 16); got != 11711 {
		t.Errorf("%d blocks, want 11,711", got)
	}
	cost := lab.Cost{KVBytesPerToken: 327680, MemoryBytes: 160e9, WeightBytes: 70.6e9, OverheadBytes: 12e9}
	if got, want := h.kvBlocks(llama70B, 2, 16), cost.Blocks(0.9); got != want {
		t.Errorf("%d blocks, the lab's engine has %d", got, want)
	}
	h.TensorParallel = 1
	if got := h.kvBlocks(llama70B, 2, 16); got != 0 {
		t.Errorf("%d blocks on one GPU, want none", got)
	}
	h = tuneHardware{MemoryBytes: 16e9, Utilization: 1, TensorParallel: 1}
	if got := h.kvBlocks(tuneModel{Layers: 32, KVHeads: 8, HeadDim: 128}, 2, 16) * 16; got != 122064 {
		t.Errorf("16 GB hold %d tokens of Llama 3 8B, want 122,064", got)
	}
}

func TestSafeMaxNumSeqs(t *testing.T) {
	for _, c := range []struct {
		blocks, size int
		average      float64
		want         int
	}{{11711, 16, 1400, 113}, {11711, 16, 2000, 79}, {5943, 16, 4096, 19}, {100, 16, 8000, 0}} {
		if got := safeMaxNumSeqs(c.blocks, c.size, c.average); got != c.want {
			t.Errorf("%d blocks, %g tokens: %d, want %d", c.blocks, c.average, got, c.want)
		}
	}
}

// Two H100: weights 70.6e9 / (2 · 3.35e12 · 0.85) = 12.4 ms and 1 ms besides, a KV token 163,840 / (3.35e12 · 0.5) = 97.8 ns, a prompt
// token 2 · 70.6e9 / (2 · 989e12 · 0.35) = 204 µs.
func TestStepsTakeWhatTheHardwareAllows(t *testing.T) {
	h := tuneGPUs["h100"]
	h.TensorParallel = 2
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.005*want {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("an empty step", h.stepSeconds(llama70B, 2, tuneStep{}), 0.0134)
	near("64 sequences of 1000 tokens", h.stepSeconds(llama70B, 2, tuneStep{sequences: 64, context: 1000}), 0.0134+64*(30e-6+1000*97.8e-9))
	near("a prompt token", h.prefillSeconds(llama70B), 204e-6)
	near("a prompt of 3000 in chunks of 2048", h.ttftIdle(llama70B, 2, 3000, 2048), 2*0.0134+3000*204e-6)
	// (50 ms − 13.4 ms) / 127.8 µs
	if got := h.seqsWithin(llama70B, 2, 1000, 0.05); got != 286 {
		t.Errorf("%d sequences within 50 ms, want 286", got)
	}
	if got := h.seqsWithin(llama70B, 2, 1000, 0.01); got > 0 {
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
		{"batch", 100, perToken(10), 16384},    // nobody reads along
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
	if m := c.shape(); m.KVHeads != 8 || m.HeadDim != 128 || c.params() != 8029995008 || c.experts() {
		t.Errorf("%+v with %.0f parameters, want 8 heads of 128 and 8,029,995,008", m, c.params())
	}
	put("model.safetensors.index.json", `{"metadata":{"total_size":16060522496}}`)
	if c, err = readModelConfig(dir); err != nil || c.weightsFromIndex != 16060522496 {
		t.Errorf("weights of %.0f bytes beside the configuration: %v", c.weightsFromIndex, err)
	}
	sees := put("sees.json", `{"torch_dtype":"bfloat16","text_config":{"num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,"head_dim":64,"num_experts":16,"layer_types":["full_attention","sliding_attention","sliding_attention"]},"quantization_config":{"quant_method":"fp8"}}`)
	if c, err = readModelConfig(sees); err != nil {
		t.Fatal(err)
	}
	if n, ok := c.weightBytes(); n != 1 || !ok || c.shape().KVHeads != 40 || c.shape().HeadDim != 64 || !c.experts() || c.windowed() != 2 || c.dtype() != "bfloat16" {
		t.Errorf("%+v, weights of %g bytes", c, n)
	}
	if _, ok := (&modelConfig{TorchDtype: "bfloat16", Quantization: &quantization{Method: "compressed-tensors"}}).weightBytes(); ok {
		t.Error("the size of weights is guessed where the quantization does not say it")
	}
	if _, err := readModelConfig(put("else.json", `{"model_type":"bert"}`)); err == nil || !strings.Contains(err.Error(), "--layers") {
		t.Errorf("a configuration without layers: %v", err)
	}
}

func TestSizesHaveUnits(t *testing.T) {
	for s, want := range map[string]float64{"80": 80 << 30, "80GiB": 80 << 30, "80GB": 80e9, "81559MiB": 81559 << 20, "1.5 TB": 1.5e12, "0": 0} {
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
