package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kinds of layers, by their names in the layer_types of transformers.
const (
	keepsAll    = "full_attention"
	keepsWindow = "sliding_attention"
	keepsChunk  = "chunked_attention"
	keepsState  = "linear_attention"
)

// uncomputed lists keys of configurations with layers that this package does not compute: states of
// other kinds (Jamba, Nemotron-H, Zamba, MiniMax, Kimi Linear), windows with their own heads (Gemma
// 4, MiMo), and a compressed cache (DeepSeek V4).
var uncomputed = []string{"hybrid_override_pattern", "hybrid_layer_pattern", "attn_layer_period", "attn_layer_indices",
	"layers_block_type", "attn_type_list",
	"linear_attn_config", "block_configs", "compress_ratios", "mamba_d_state", "mamba_num_heads", "ssm_cfg",
	"ssm_state_size", "state_size", "global_head_dim",
	"num_global_key_value_heads", "swa_num_key_value_heads", "swa_head_dim", "cross_attention_layers"}

// byShape is the remedy for a configuration that cannot be computed.
const byShape = "give --layers, --kv-heads and --head-dim of the layers that keep every token"

// encoders lists model types that read a text and write none. They keep nothing for a next token.
var encoders = []string{"albert", "bert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra",
	"ernie", "eurobert", "ibert", "jina_bert", "modernbert",
	"mpnet", "neobert", "new", "nomic_bert", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl",
	"xlm-roberta-flash"}

// noKVCache returns an error for models that keep no KV cache of the computed form.
func (c *modelConfig) noKVCache() error {
	const noAdvice = "advice on the KV cache does not apply"
	masked := slices.ContainsFunc(c.Architectures, func(a string) bool { return strings.HasSuffix(a, "ForMaskedLM") })
	switch {
	case c.EncoderDecoder:
		return errors.New("the model has an encoder and a decoder, and tune cannot compute its KV cache: " +
			noAdvice)
	case c.IsDecoder: // a BERT that writes
		return nil
	case slices.Contains(encoders, c.ModelType), masked, c.Causal != nil && !*c.Causal:
		return errors.New("the model is an encoder only (model_type " + cmp.Or(c.ModelType, "unknown") +
			"), which has no KV cache: " + noAdvice +
			", and --max-num-seqs affects only speed")
	}
	return nil
}

// windowPatterns has the models whose configuration may omit that one of every n layers keeps
// everything. transformers fills it in.
var windowPatterns = map[string]int{"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}

// kinds returns the kinds of the model's layers, in order. Sources: the configuration classes of
// transformers for the models that are named here; for a window that applies to all layers, vLLM's
// ModelConfig.get_sliding_window.
func (c *modelConfig) kinds() ([]string, error) {
	for _, key := range uncomputed {
		if v, ok := c.raw[key]; ok && string(v) != "null" && string(v) != "[]" {
			return nil, fmt.Errorf("%q describes layers that tune cannot compute: %s; the other layers are then "+
				"left out", key, byShape)
		}
	}
	out, err := c.layout()
	if err != nil {
		return nil, err
	}
	if len(out) != c.Layers {
		return nil, fmt.Errorf("layer_types has %d layers, num_hidden_layers is %d: %s", len(out), c.Layers, byShape)
	}
	if c.Shared < 0 || c.Shared >= c.Layers {
		return nil, fmt.Errorf("num_kv_shared_layers is %d of %d layers: %s", c.Shared, c.Layers, byShape)
	}
	return out[:c.Layers-c.Shared], nil // the last ones use the keys and values of others (Gemma 3n)
}

func (c *modelConfig) layout() ([]string, error) {
	if len(c.Layout) > 0 {
		return slices.Clone(c.Layout), nil
	}
	pattern := windowPatterns[c.ModelType]
	if v := string(c.Pattern); v != "" && v != "null" {
		if err := json.Unmarshal(c.Pattern, &pattern); err != nil || pattern < 1 {
			return nil, fmt.Errorf("sliding_window_pattern %s is unknown: %s", v, byShape)
		}
	}
	every := func(n int, other string) []string {
		out := make([]string, c.Layers)
		for i := range out {
			out[i] = other
			if n > 0 && (i+1)%n == 0 {
				out[i] = keepsAll
			}
		}
		return out
	}
	switch {
	case c.FullInterval > 0: // Qwen3-Next, Qwen3.5
		return every(c.FullInterval, keepsState), nil
	case c.ChunkSize != nil && len(c.NoRope) == c.Layers: // Llama 4
		out := every(1, keepsAll)
		for i, rope := range c.NoRope {
			if rope != 0 {
				out[i] = keepsChunk
			}
		}
		return out, nil
	case c.ChunkSize != nil:
		return every(max(c.NoRopeInterval, 4), keepsChunk), nil
	case c.Window == nil, c.UseWindow != nil && !*c.UseWindow:
		return every(1, keepsAll), nil
	case pattern > 0:
		return every(pattern, keepsWindow), nil
	}
	out := every(0, keepsWindow)                        // Mistral 7B, Phi-3
	if c.UseWindow != nil && c.MaxWindowLayers != nil { // Qwen2: from that layer on
		for i := range min(max(*c.MaxWindowLayers, 0), c.Layers) {
			out[i] = keepsAll
		}
	}
	return out, nil
}

// shape returns the sizes of the model that decide its KV cache.
func (c *modelConfig) shape() (Model, error) {
	if c.Layers <= 0 || c.Heads <= 0 {
		return Model{}, fmt.Errorf("num_hidden_layers or num_attention_heads is missing: %s", byShape)
	}
	m := Model{KVHeads: c.KVHeads, HeadDim: c.HeadDim, Heads: c.Heads}
	if m.KVHeads == 0 {
		m.KVHeads = c.Heads // no grouped queries
	}
	if m.HeadDim == 0 {
		m.HeadDim = c.Hidden / c.Heads
	}
	if c.KVLoraRank > 0 && c.ModelType != "minicpm3" { // which keeps whole keys and values
		m.Latent = c.KVLoraRank + c.RopeHeadDim
	}
	if m.Latent == 0 && (m.KVHeads < 1 || m.HeadDim < 1) {
		return m, fmt.Errorf("the size of its heads is missing: %s", byShape)
	}
	if m.Latent == 0 && c.ValueHeadDim > 0 && c.ValueHeadDim != m.HeadDim {
		return m, fmt.Errorf("keys have %d numbers and values %d, which tune cannot compute: %s", m.HeadDim,
			c.ValueHeadDim, byShape)
	}
	kinds, err := c.kinds()
	if err != nil {
		return m, err
	}
	for _, kind := range kinds {
		switch kind {
		case keepsAll, "attention":
			m.Layers++
		case keepsWindow:
			m.WindowLayers++
		case keepsChunk:
			m.WindowLayers++
		case keepsState:
			m.StateLayers++
		default:
			return m, fmt.Errorf("tune cannot compute layers of the kind %q: %s", kind, byShape)
		}
	}
	if m.WindowLayers > 0 {
		if m.Window, err = c.window(kinds); err != nil {
			return m, err
		}
	}
	if m.StateLayers > 0 {
		if m.StateBytes, err = c.stateBytes(); err != nil {
			return m, err
		}
		if m.Layers == 0 {
			return m, errors.New("no layer keeps tokens: its memory does not grow with the length of requests, " +
				"and --max-num-seqs affects only speed")
		}
	}
	return m, nil
}

// shaped returns the model that --layers, --kv-heads and --head-dim describe. The flags win, and
// all those layers keep every token.
func (c *modelConfig) shaped(layers, kvHeads, headDim int) Model {
	m := Model{Layers: cmp.Or(layers, c.Layers), KVHeads: cmp.Or(kvHeads, cmp.Or(c.KVHeads, c.Heads)),
		HeadDim: cmp.Or(headDim, c.HeadDim), Heads: max(0, c.Heads)}
	if m.HeadDim == 0 && c.Heads > 0 {
		m.HeadDim = c.Hidden / c.Heads
	}
	return m
}

// window returns the number of tokens that the layers with a window keep. A layer of chunked
// attention keeps its chunk.
func (c *modelConfig) window(kinds []string) (int, error) {
	w := c.Window
	if slices.Contains(kinds, keepsChunk) {
		if slices.Contains(kinds, keepsWindow) {
			return 0, fmt.Errorf("it has layers with windows and with chunks, which tune cannot compute: %s", byShape)
		}
		w = c.ChunkSize
	}
	if w == nil || *w < 1 {
		return 0, fmt.Errorf("its layers have a window, but the size is missing (sliding_window): %s", byShape)
	}
	return *w, nil
}

// stateBytes returns the size of a request's state in a layer of gated linear attention
// (Qwen3-Next, Qwen3.5): the last inputs of its convolution, and a matrix for each value head.
//
//	(2 · key heads · key dim + value heads · value dim) · (kernel − 1) · bytes
//	+ value heads · value dim · key dim · state bytes
//
// Qwen3-Next: 8,192·3·2 + 32·128·128·2 = 1,097,728. Source: vLLM's
// MambaStateShapeCalculator.gated_delta_net_state_shape. The type of the matrix is mamba_ssm_dtype
// if the configuration has it.
func (c *modelConfig) stateBytes() (float64, error) {
	if c.ConvKernel < 1 || c.KeyHeads < 1 || c.KeyDim < 1 || c.ValueHeads < 1 || c.ValueDim < 1 {
		return 0, fmt.Errorf("it has layers with states of unknown size (linear_num_value_heads and similar "+
			"keys): %s", byShape)
	}
	number, err := dtypeBytes(c.dtype())
	if err != nil {
		return 0, err
	}
	state := number
	if c.StateDtype != "" {
		if state, err = dtypeBytes(c.StateDtype); err != nil {
			return 0, err
		}
	}
	convolution := float64((2*c.KeyHeads*c.KeyDim + c.ValueHeads*c.ValueDim) * (c.ConvKernel - 1))
	return convolution*number + float64(c.ValueHeads*c.ValueDim*c.KeyDim)*state, nil
}

// latentBytes returns the size of a token in a layer of DeepSeek's sparse attention (V3.2). In the
// default type of its KV cache that is 656 bytes of packed fp8 with scales, else the latent vector
// in the given type. The indexer's key is added, in fp8 with a scale for every 128 numbers. Source:
// vLLM's MLAAttentionSpec (fp8_ds_mla) and ModelArchitectureConfig.get_indexer_cache_head_size.
func (c *modelConfig) latentBytes(m Model, kvDtype string, number float64) float64 {
	if m.Latent == 0 || c.IndexDim == 0 {
		return 0
	}
	latent := 656.0
	if kvDtype != "auto" && kvDtype != "" && number > 1 {
		latent = float64(m.Latent) * number
	}
	return latent + float64(c.IndexDim) + float64(c.IndexDim/128*4)
}
