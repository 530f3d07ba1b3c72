package tune

import (
	"math"

	"paramedic/remediate"
)

// A Model has the sizes of a model that the arithmetic needs.
type Model struct {
	Layers  int `json:"layers"` // that keep every token
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	Heads   int `json:"attention_heads,omitempty"` // 0: not known
	// Latent is the width of the one compressed vector that multi-head latent attention (DeepSeek)
	// keeps for a token in a layer. It is 0 if the model keeps keys and values.
	Latent int `json:"latent,omitempty"`
	// LatentBytes is the size of a token in a layer that keeps something else than plain numbers
	// (DeepSeek's sparse attention), else 0.
	LatentBytes float64 `json:"latent_bytes,omitempty"`
	// WindowLayers keep the last Window tokens only.
	WindowLayers int `json:"window_layers,omitempty"`
	Window       int `json:"window,omitempty"`
	// StateLayers (linear attention) keep a state of StateBytes for a request of any length.
	StateLayers  int     `json:"state_layers,omitempty"`
	StateBytes   float64 `json:"state_bytes,omitempty"`
	WeightBytes  float64 `json:"weight_bytes"`
	ActiveParams float64 `json:"active_params"` // that one token passes: all of them, but for a mixture of experts
}

// mixed reports whether layers keep different numbers of tokens. Then a block of the KV cache has
// no fixed number of tokens.
func (m Model) mixed() bool { return m.WindowLayers > 0 || m.StateLayers > 0 }

// layerBytes returns the size of one token on each GPU in a layer that keeps it, as key and value.
//
//	bytes = 2 · KV heads on the GPU · head dim · bytes of a number
//
// KV heads are divided among the ranks of a tensor-parallel group. With more ranks than heads,
// every rank keeps a whole head. A latent vector cannot be divided: each rank keeps all of it.
// Sources: vLLM's FullAttentionSpec and MLAAttentionSpec, and ModelConfig.get_num_kv_heads, max(1,
// KV heads / tensor parallel size).
func (m Model) layerBytes(bytes float64, tensorParallel int) float64 {
	switch {
	case m.LatentBytes > 0:
		return m.LatentBytes
	case m.Latent > 0:
		return float64(m.Latent) * bytes
	}
	return 2 * float64(max(1, m.KVHeads/tensorParallel)*m.HeadDim) * bytes
}

// kvBytesPerToken returns the size of one token in the KV cache over all GPUs, in the layers that
// keep every token.
//
//	bytes/token = 2 · layers · KV heads · head dim · bytes
//
// Llama 3 8B in bf16: 2·32·8·128·2 = 131,072. It counts KV heads, not attention heads. A formula
// with the hidden size (4096·80 = 327,680 for Llama 3 70B) is right only if grouped-query attention
// happens to make up for it. Source: the paged attention paper (Kwon et al. 2023, §3) and vLLM's
// FullAttentionSpec.page_size_bytes.
func (m Model) kvBytesPerToken(bytes float64) float64 { return m.kvBytesPerGPU(bytes, 1) }

// kvBytesPerGPU returns the size of one token on each GPU of a tensor-parallel group.
func (m Model) kvBytesPerGPU(bytes float64, tensorParallel int) float64 {
	return float64(m.Layers) * m.layerBytes(bytes, tensorParallel)
}

// kvRead returns the bytes that a step reads on each GPU for one sequence of the given length: its
// keys and values, and its states, which it also writes.
func (m Model) kvRead(bytes float64, tensorParallel int, tokens float64) float64 {
	kept := float64(m.Layers)*tokens + float64(m.WindowLayers)*min(tokens, float64(m.Window))
	return kept*m.layerBytes(bytes, tensorParallel) + 2*float64(m.StateLayers)*m.StateBytes/float64(tensorParallel)
}

// groupLayers returns the number of layers that share a block of vLLM's KV cache. vLLM cuts layers
// of one kind into groups of that size, each with its own blocks; a model of equal layers is one
// group. It is the count of the rarest kind, or of the commonest kind if that is less than half as
// large again. Groups that are not full are padded. Source: vLLM's
// kv_cache_utils._get_kv_cache_groups_uniform_page_size.
func (m Model) groupLayers() int {
	least, most := 0, 0
	for _, n := range []int{m.Layers, m.WindowLayers, m.StateLayers} {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
		most = max(most, n)
	}
	if 2*most < 3*least {
		return most
	}
	return least
}

// blockBytes returns the size of one block on each GPU.
func (m Model) blockBytes(bytes float64, tensorParallel, blockSize int) float64 {
	return float64(m.groupLayers()*blockSize) * m.layerBytes(bytes, tensorParallel)
}

// stateBlocks is the number of blocks that a group of layers with states takes for a request: the
// state itself and, with prefix caching, the one before. Source: vLLM's
// MambaSpec.max_memory_usage_bytes in the cache mode "align", which prefix caching uses.
const stateBlocks = 2

// blocksOf returns the number of blocks of a request over all groups of layers. Layers with a
// window keep the window, and a part of a block because the window does not begin at a block's
// edge. Sources: vLLM's SlidingWindowSpec and MambaSpec.
func (m Model) blocksOf(tokens float64, blockSize int) float64 {
	size, group := float64(blockSize), m.groupLayers()
	groups := func(layers int) float64 { return float64((layers + group - 1) / group) }
	n := groups(m.Layers) * tokens / size
	if window := float64(m.Window); m.WindowLayers > 0 {
		held := tokens / size
		if tokens > window {
			held = window/size + 1
		}
		n += groups(m.WindowLayers) * held
	}
	if m.StateLayers > 0 {
		n += groups(m.StateLayers) * stateBlocks
	}
	return n
}

// fittingBlockSize returns the size of a block in tokens: the requested one, or for a model with
// states, enough that a block holds a state. Qwen3-Next on one GPU: 1,097,728 / (2·2·256·2) = 536,
// to the next multiple of 16: 544. Source: vLLM's HybridAttentionMambaModelConfig.
func (m Model) fittingBlockSize(asked int, bytes float64, tensorParallel int) int {
	if m.StateLayers == 0 {
		return asked
	}
	state := m.StateBytes / float64(tensorParallel)
	return max(asked, 16*int(math.Ceil(state/(16*m.layerBytes(bytes, tensorParallel)))))
}

// Hardware describes the GPUs of one worker.
type Hardware struct {
	GPU            string  `json:"gpu,omitempty"`
	MemoryBytes    float64 `json:"memory_bytes"` // of one
	Utilization    float64 `json:"gpu_memory_utilization"`
	OverheadBytes  float64 `json:"overhead_bytes"` // of one: activations, CUDA graphs, NCCL's buffers
	TensorParallel int     `json:"tensor_parallel"`
	Bandwidth      float64 `json:"bandwidth,omitempty"` // bytes a second of one; 0: not known
	FLOPS          float64 `json:"flops,omitempty"`     // dense 16-bit operations a second of one
}

// kvMemory returns the memory of one GPU for the KV cache.
//
//	memory · gpu_memory_utilization − weights / tensor parallel − overhead
//
// Weights are divided among the ranks, so that a model too large for one GPU leaves room on two.
// Source: vLLM's Worker.determine_available_memory.
func (h Hardware) kvMemory(m Model) float64 {
	return h.MemoryBytes*h.Utilization - m.WeightBytes/float64(h.TensorParallel) - h.OverheadBytes
}

// kvBlocks returns the number of blocks of a worker's KV cache. Every rank has the same number,
// each with its share of the heads.
func (h Hardware) kvBlocks(m Model, kvBytes float64, blockSize int) int {
	return max(0, int(h.kvMemory(m)/m.blockBytes(kvBytes, h.TensorParallel, blockSize)))
}

// safeMaxNumSeqs returns the number of average requests that fit into the KV cache at their full
// length.
//
//	int(blocks · 0.85 / (average tokens / block size))
//
// The average counts prompt and answer. The result is on the safe side: a running request has
// written half of its answer on average, and shared prefixes are kept once. First aid computes the
// same for set_engine_arg, rounded with graphSize. It knows no model, so it takes every block to
// hold tokens of all layers, and uses what running requests really hold if that is more.
func safeMaxNumSeqs(blocks int, each float64) int {
	return int(float64(blocks) * remediate.KVFill / each)
}

// graphSize rounds down to a multiple of eight. Engines capture graphs for batches of such sizes,
// and pad others to the next. Source: vLLM's cudagraph_capture_sizes (1, 2, 4, 8, 16, 24, …).
func graphSize(seqs int) int {
	if seqs < 8 {
		return seqs
	}
	return seqs / 8 * 8
}

// Shares of a GPU's nominal speed that engines reach. They are the estimates of the lab's cost
// model: weights stream well, paged attention reads scattered blocks, and prefill reaches a third
// of the arithmetic.
const (
	weightReadShare = 0.85
	kvReadShare     = 0.5
	prefillShare    = 0.35
	stepBase        = 0.001 // seconds: launches, all-reduce
	stepSequence    = 30e-6 // seconds a sequence: sampling, scheduling, detokenizing
)

// A step is one step of the engine: it decodes a number of sequences, each with a context in the KV
// cache, beside a chunk of prefill.
type step struct {
	sequences, context float64
	chunk              float64
}

// stepSeconds estimates the duration of a step, which is the time between two tokens of each
// sequence in it.
//
//	weights / (TP · bandwidth) + KV read / (TP · bandwidth)
//	+ 2 · parameters · chunk / (TP · FLOPS)
//
// Decode reads every weight once in a step, for a batch of any size. Prefill is bound by
// arithmetic, at two operations for a parameter and token. Source: the roofline model; Pope et al.
// 2022, Efficiently Scaling Transformer Inference, §2.
func (h Hardware) stepSeconds(m Model, kvBytes float64, s step) float64 {
	t := stepBase + m.WeightBytes/float64(h.TensorParallel)/(h.Bandwidth*weightReadShare)
	t += s.sequences * (stepSequence + m.kvRead(kvBytes, h.TensorParallel, s.context)/(h.Bandwidth*kvReadShare))
	return t + s.chunk*h.prefillSeconds(m)
}

// prefillSeconds returns the duration of the arithmetic of one prompt token.
func (h Hardware) prefillSeconds(m Model) float64 {
	return 2 * m.ActiveParams / (float64(h.TensorParallel) * h.FLOPS * prefillShare)
}

// A load has the lengths of requests in tokens: the average, and prompt and answer apart if they
// are known, else 0.
type load struct{ average, prompt, answer float64 }

// between returns the mean time between tokens if the given number of sequences always runs, at
// full length. It is a step, and the prefill that each step does on average, since a sequence reads
// a prompt for every answer. If prompts are unknown, it is a step without prefill.
//
//	step + sequences · prompt / answer · prefill of a token
func (h Hardware) between(m Model, kvBytes float64, l load, sequences int) float64 {
	t := h.stepSeconds(m, kvBytes, step{sequences: float64(sequences), context: l.average})
	if l.answer > 0 {
		t += float64(sequences) * l.prompt / l.answer * h.prefillSeconds(m)
	}
	return t
}

// seqsWithin returns the number of sequences that keep a time between tokens: between, solved for
// the sequences. It is 0 or less if not even one does.
func (h Hardware) seqsWithin(m Model, kvBytes float64, l load, itl float64) int {
	alone := h.between(m, kvBytes, l, 0)
	each := h.between(m, kvBytes, l, 1) - alone
	return int((itl - alone) / each)
}

// ttftIdle returns the time to first token of a prompt on an idle worker: a step for each chunk of
// the prompt. Source: TTFT = queue + prefill.
func (h Hardware) ttftIdle(m Model, kvBytes, prompt, chunk float64) float64 {
	steps := math.Ceil(prompt / chunk)
	return steps*h.stepSeconds(m, kvBytes, step{}) + prompt*h.prefillSeconds(m)
}

// tokensPerSecond returns the tokens that a worker generates in a second if the given number of
// sequences always runs, each with a prompt for its answer. On average, a sequence has its prompt
// and half of its answer in the KV cache. Cached prefixes, which do not count here, make it faster.
func (h Hardware) tokensPerSecond(m Model, kvBytes float64, l load, sequences int) float64 {
	l.average = l.prompt + l.answer/2
	return float64(sequences) / h.between(m, kvBytes, l, sequences)
}
