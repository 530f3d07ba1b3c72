package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// gpus has GPUs by name, from the vendors' data sheets: memory as the driver reports it, bandwidth,
// dense 16-bit arithmetic.
var gpus = map[string]Hardware{
	"h100":      {MemoryBytes: 81559 << 20, Bandwidth: 3.35e12, FLOPS: 989e12},
	"h200":      {MemoryBytes: 143771 << 20, Bandwidth: 4.8e12, FLOPS: 989e12},
	"b200":      {MemoryBytes: 183359 << 20, Bandwidth: 8e12, FLOPS: 2250e12},
	"a100-80gb": {MemoryBytes: 81920 << 20, Bandwidth: 2.039e12, FLOPS: 312e12},
	"a100-40gb": {MemoryBytes: 40960 << 20, Bandwidth: 1.555e12, FLOPS: 312e12},
	"l40s":      {MemoryBytes: 46068 << 20, Bandwidth: 0.864e12, FLOPS: 362e12},
	"l4":        {MemoryBytes: 23034 << 20, Bandwidth: 0.3e12, FLOPS: 121e12},
	"mi300x":    {MemoryBytes: 192e9, Bandwidth: 5.3e12, FLOPS: 1307e12},
}

// GPUs returns the names of the known GPUs.
func GPUs() string { return strings.Join(slices.Sorted(maps.Keys(gpus)), ", ") }

// dtypeBytes returns the size of a number, by the type's name in configurations.
func dtypeBytes(name string) (float64, error) {
	switch strings.ToLower(strings.TrimPrefix(name, "torch.")) {
	case "bf16", "bfloat16", "fp16", "float16", "half":
		return 2, nil
	case "fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "int8":
		return 1, nil
	case "int4", "fp4", "nvfp4", "mxfp4":
		return 0.5, nil
	case "fp32", "float32", "float":
		return 4, nil
	}
	return 0, fmt.Errorf("the number type %q is unknown: use bf16, fp16, fp8, int8, int4 or fp32", name)
}

// parseSize parses 80, 80GiB, 80GB or 81559MiB. A bare number is in GiB.
func parseSize(flag, s string) (float64, error) {
	units := []struct {
		name string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"TiB", 1 << 40}, {"GB", 1e9}, {"MB", 1e6}, {"TB", 1e12}, {"", 1 << 30}}
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil && v >= 0 && v < 1e9 {
			return v * u.size, nil
		}
		break
	}
	return 0, fmt.Errorf("--%s %q is not a size such as 80GiB, 80GB or 81559MiB", flag, s)
}

// sizeAboveZero parses a size that must be above zero.
func sizeAboveZero(flag, s string) (float64, error) {
	v, err := parseSize(flag, s)
	if err == nil && v == 0 {
		err = fmt.Errorf("--%s %q: use a size above 0, such as 80GiB", flag, s)
	}
	return v, err
}

// A modelConfig holds the keys of a model's config.json that are used here, as Hugging Face's
// transformers writes them.
type modelConfig struct {
	ModelType        string          `json:"model_type"`
	Architectures    []string        `json:"architectures"`
	EncoderDecoder   bool            `json:"is_encoder_decoder"`
	IsDecoder        bool            `json:"is_decoder"`
	Causal           *bool           `json:"is_causal"`
	Layers           int             `json:"num_hidden_layers"`
	Hidden           int             `json:"hidden_size"`
	Intermediate     int             `json:"intermediate_size"`
	Heads            int             `json:"num_attention_heads"`
	KVHeads          int             `json:"num_key_value_heads"`
	HeadDim          int             `json:"head_dim"`
	ValueHeadDim     int             `json:"v_head_dim"`
	KVLoraRank       int             `json:"kv_lora_rank"`
	RopeHeadDim      int             `json:"qk_rope_head_dim"`
	IndexDim         int             `json:"index_head_dim"`
	Vocabulary       int             `json:"vocab_size"`
	Positions        int             `json:"max_position_embeddings"`
	Tied             *bool           `json:"tie_word_embeddings"`
	TorchDtype       string          `json:"torch_dtype"`
	Dtype            string          `json:"dtype"`
	Experts          int             `json:"num_local_experts"`
	MoreExperts      int             `json:"num_experts"`
	RoutedExperts    int             `json:"n_routed_experts"`
	Layout           []string        `json:"layer_types"`
	Shared           int             `json:"num_kv_shared_layers"`
	Window           *int            `json:"sliding_window"`
	UseWindow        *bool           `json:"use_sliding_window"`
	MaxWindowLayers  *int            `json:"max_window_layers"`
	Pattern          json.RawMessage `json:"sliding_window_pattern"`
	ChunkSize        *int            `json:"attention_chunk_size"`
	NoRope           []int           `json:"no_rope_layers"`
	NoRopeInterval   int             `json:"no_rope_layer_interval"`
	FullInterval     int             `json:"full_attention_interval"`
	ConvKernel       int             `json:"linear_conv_kernel_dim"`
	KeyHeads         int             `json:"linear_num_key_heads"`
	KeyDim           int             `json:"linear_key_head_dim"`
	ValueHeads       int             `json:"linear_num_value_heads"`
	ValueDim         int             `json:"linear_value_head_dim"`
	StateDtype       string          `json:"mamba_ssm_dtype"`
	Quantization     *quantization   `json:"quantization_config"`
	weightsFromIndex float64
	raw              map[string]json.RawMessage // all keys
}

type quantization struct {
	Method string  `json:"quant_method"`
	Bits   float64 `json:"bits"`
}

// largestSize is the largest valid size in a configuration. A larger number is a mistake, and would
// overflow.
const largestSize = 1 << 24

// readModelConfig reads a config.json, or the one in a directory. If the index of the weights lies
// beside it, it gives their exact size.
func readModelConfig(path string) (*modelConfig, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the model's configuration: %w", err)
	}
	c, err := parseModelConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is not a model configuration: %w", path, err)
	}
	for _, size := range c.sizes() {
		if size.n < 0 || size.n > largestSize {
			return nil, fmt.Errorf("%s: %s is %d, which no model has: %s", path, size.key, size.n, byShape)
		}
	}
	var index struct {
		Metadata struct {
			TotalSize float64 `json:"total_size"`
		} `json:"metadata"`
	}
	raw, err = os.ReadFile(filepath.Join(filepath.Dir(path), "model.safetensors.index.json"))
	if err == nil && json.Unmarshal(raw, &index) == nil && index.Metadata.TotalSize > 0 {
		c.weightsFromIndex = index.Metadata.TotalSize
	}
	return c, nil
}

// A configSize is one of a configuration's sizes, by its key.
type configSize struct {
	key string
	n   int
}

func (c *modelConfig) sizes() []configSize {
	return []configSize{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden},
		{"intermediate_size", c.Intermediate}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"v_head_dim", c.ValueHeadDim}, {"kv_lora_rank",
			c.KVLoraRank}, {"qk_rope_head_dim", c.RopeHeadDim},
		{"index_head_dim", c.IndexDim}, {"vocab_size", c.Vocabulary}, {"linear_num_key_heads",
			c.KeyHeads}, {"linear_key_head_dim", c.KeyDim},
		{"linear_num_value_heads", c.ValueHeads}, {"linear_value_head_dim", c.ValueDim}, {"linear_conv_kernel_dim",
			c.ConvKernel}}
}

// notThat rewrites an error of encoding/json in the words of the file.
func notThat(err error) error {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	if kind.Field == "" {
		return errors.New("it is not a JSON object")
	}
	want := map[reflect.Kind]string{reflect.Int: "a whole number", reflect.Float64: "a number",
		reflect.Bool: "true or false", reflect.String: "text", reflect.Slice: "a list"}[kind.Type.Kind()]
	return fmt.Errorf("%s is a JSON %s, not %s", kind.Field, kind.Value, cmp.Or(want, "something else"))
}

// parseModelConfig parses a configuration. Of a model that also reads images, it takes the part for
// text.
func parseModelConfig(raw []byte) (*modelConfig, error) {
	var c modelConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, notThat(err)
	}
	if err := json.Unmarshal(raw, &c.raw); err != nil {
		return nil, fmt.Errorf("decoding it: %w", err)
	}
	if nested, ok := c.raw["text_config"]; ok && c.Layers == 0 && string(nested) != "null" {
		text, err := parseModelConfig(nested)
		if err != nil {
			return nil, err
		}
		text.TorchDtype, text.Dtype = cmp.Or(text.TorchDtype, c.TorchDtype), cmp.Or(text.Dtype, c.Dtype)
		if text.Quantization == nil {
			text.Quantization = c.Quantization
		}
		return text, nil
	}
	return &c, nil
}

// experts reports whether the model is a mixture of experts. Its configuration does not give its
// size simply.
func (c *modelConfig) experts() bool { return max(c.Experts, c.MoreExperts, c.RoutedExperts) > 1 }

// params counts the parameters of a dense transformer: embeddings, and in every layer the four
// projections of attention and the three of a gated feed-forward network. It returns 0 if the
// layers have another form.
func (c *modelConfig) params(m Model) float64 {
	if m.StateLayers > 0 || m.Latent > 0 || c.experts() {
		return 0
	}
	embeddings := 2 * float64(c.Vocabulary) * float64(c.Hidden)
	if c.tied() {
		embeddings /= 2
	}
	attention := 2*float64(c.Hidden)*float64(c.Heads*m.HeadDim) + 2*float64(c.Hidden)*float64(m.KVHeads*m.HeadDim)
	return embeddings + float64(c.Layers)*(attention+3*float64(c.Hidden)*float64(c.Intermediate))
}

// tied reports whether the output uses the weights of the input's embeddings. The configurations of
// Gemma and Command may omit that.
func (c *modelConfig) tied() bool {
	if c.Tied != nil {
		return *c.Tied
	}
	return strings.HasPrefix(c.ModelType, "gemma") || strings.HasPrefix(c.ModelType, "cohere")
}

// weightBytes returns the size of one weight. It is false if the size of quantized weights is
// unknown.
func (c *modelConfig) weightBytes() (float64, bool) {
	if q := c.Quantization; q != nil {
		switch {
		case q.Bits > 0 && q.Bits <= 32:
			return q.Bits / 8, true
		case q.Method == "fp8":
			return 1, true
		case q.Method == "mxfp4":
			return 0.5, true
		}
		return 0, false
	}
	n, err := dtypeBytes(c.dtype())
	return n, err == nil
}

func (c *modelConfig) dtype() string { return cmp.Or(cmp.Or(c.Dtype, c.TorchDtype), "bf16") }

var errWeights = errors.New("the size of the model is not known: use --weights SIZE, or --params in billions")
