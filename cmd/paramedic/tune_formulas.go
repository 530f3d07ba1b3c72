package main

import (
	"fmt"
	"math"
)

// A tuneModel is what the arithmetic needs of a model.
type tuneModel struct {
	Layers  int `json:"layers"`
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	// Latent is the width of the one compressed vector that multi-head latent attention (DeepSeek) keeps a layer and token; 0: the
	// model keeps keys and values.
	Latent       int     `json:"latent,omitempty"`
	WeightBytes  float64 `json:"weight_bytes"`
	ActiveParams float64 `json:"active_params"` // that one token passes: all of them, but for a mixture of experts
}

// kvBytesPerToken is what one token takes in the KV cache over all GPUs: a key and a value in every layer.
//
//	bytes/token = 2 · layers · KV heads · head dim · bytes
//
// Llama 3 8B in bf16: 2·32·8·128·2 = 131,072. The count is of KV heads, not of attention heads: a formula with the hidden size
// (4096·80 = 327,680 for Llama 3 70B) is right only where grouped-query attention happens to make up for it.
// Source: the paged attention paper (Kwon et al. 2023, §3) and vLLM's FullAttentionSpec.page_size_bytes.
func (m tuneModel) kvBytesPerToken(bytes float64) float64 {
	if m.Latent > 0 {
		return float64(m.Layers*m.Latent) * bytes
	}
	return 2 * float64(m.Layers*m.KVHeads*m.HeadDim) * bytes
}

// kvBytesPerGPU is what one token takes on each GPU of a tensor-parallel group. KV heads are divided among the ranks; where there are
// more ranks than heads, every rank keeps a whole one. A latent vector cannot be divided: each rank keeps it whole.
// Source: vLLM's ModelConfig.get_num_kv_heads, max(1, KV heads / tensor parallel size).
func (m tuneModel) kvBytesPerGPU(bytes float64, tensorParallel int) float64 {
	if m.Latent > 0 {
		return m.kvBytesPerToken(bytes)
	}
	m.KVHeads = max(1, m.KVHeads/tensorParallel)
	return m.kvBytesPerToken(bytes)
}

// A tuneHardware is the GPUs of one worker.
type tuneHardware struct {
	GPU            string  `json:"gpu,omitempty"`
	MemoryBytes    float64 `json:"memory_bytes"` // of one
	Utilization    float64 `json:"gpu_memory_utilization"`
	OverheadBytes  float64 `json:"overhead_bytes"` // of one: activations, CUDA graphs, NCCL's buffers
	TensorParallel int     `json:"tensor_parallel"`
	Bandwidth      float64 `json:"bandwidth,omitempty"` // bytes a second of one; 0: not known
	FLOPS          float64 `json:"flops,omitempty"`     // dense 16-bit operations a second of one
}

// kvMemory is what one GPU has left for the KV cache.
//
//	memory · gpu_memory_utilization − weights / tensor parallel − overhead
//
// Weights are divided among the ranks, so that a model too large for one GPU leaves room on two.
// Source: vLLM's Worker.determine_available_memory.
func (h tuneHardware) kvMemory(m tuneModel) float64 {
	return h.MemoryBytes*h.Utilization - m.WeightBytes/float64(h.TensorParallel) - h.OverheadBytes
}

// kvBlocks is how many blocks of the KV cache a worker has: every rank has as many, each with its share of the heads.
func (h tuneHardware) kvBlocks(m tuneModel, kvBytes float64, blockSize int) int {
	return max(0, int(h.kvMemory(m)/(m.kvBytesPerGPU(kvBytes, h.TensorParallel)*float64(blockSize))))
}

// kvFill is how much of the KV cache safeMaxNumSeqs plans for. The rest is for requests that are longer than the average one.
const kvFill = 0.85

// safeMaxNumSeqs is how many average requests the KV cache holds at their full length.
//
//	int(blocks · 0.85 / (average tokens / block size))
//
// Average tokens are a prompt's and its answer's. It is on the safe side: a running request has written half of its answer in the mean, and
// shared prefixes are kept once. It is also what first aid computes for set_engine_arg.
func safeMaxNumSeqs(blocks, blockSize int, averageTokens float64) int {
	return int(float64(blocks) * kvFill / (averageTokens / float64(blockSize)))
}

// Shares of a GPU's nominal speed that engines reach. They are estimates, those of the lab's cost model: weights are streamed well,
// paged attention reads scattered blocks, prefill reaches a third of the arithmetic.
const (
	weightReadShare = 0.85
	kvReadShare     = 0.5
	prefillShare    = 0.35
	stepBase        = 0.001 // seconds: launches, all-reduce
	stepSequence    = 30e-6 // seconds a sequence: sampling, scheduling, detokenizing
)

// A tuneStep is one step of the engine: so many sequences are decoded, each with so many tokens in the KV cache, beside a chunk of
// prefill.
type tuneStep struct {
	sequences, context float64
	chunk              float64
}

// stepSeconds is about how long a step takes, which is the time between two tokens of everybody in it.
//
//	weights / (TP · bandwidth) + KV read / (TP · bandwidth) + 2 · parameters · chunk / (TP · FLOPS)
//
// Decode reads every weight once a step whatever the batch, prefill is bound by arithmetic at two operations a parameter and token.
// Source: the roofline model; Pope et al. 2022, Efficiently Scaling Transformer Inference, §2.
func (h tuneHardware) stepSeconds(m tuneModel, kvBytes float64, s tuneStep) float64 {
	t := stepBase + m.WeightBytes/float64(h.TensorParallel)/(h.Bandwidth*weightReadShare)
	t += s.sequences * (stepSequence + s.context*m.kvBytesPerGPU(kvBytes, h.TensorParallel)/(h.Bandwidth*kvReadShare))
	return t + s.chunk*h.prefillSeconds(m)
}

// prefillSeconds is how long the arithmetic of one prompt token takes.
func (h tuneHardware) prefillSeconds(m tuneModel) float64 {
	return 2 * m.ActiveParams / (float64(h.TensorParallel) * h.FLOPS * prefillShare)
}

// seqsWithin is how many sequences can be decoded within a time between tokens: stepSeconds solved for the sequences. 0 or less: not one.
func (h tuneHardware) seqsWithin(m tuneModel, kvBytes, context, itl float64) int {
	alone := h.stepSeconds(m, kvBytes, tuneStep{})
	each := h.stepSeconds(m, kvBytes, tuneStep{sequences: 1, context: context}) - alone
	return int((itl - alone) / each)
}

// ttftIdle is the time to first token of a prompt on an idle worker: as many steps as the prompt has chunks. Source: TTFT = queue + prefill.
func (h tuneHardware) ttftIdle(m tuneModel, kvBytes, prompt, chunk float64) float64 {
	steps := math.Ceil(prompt / chunk)
	return steps*h.stepSeconds(m, kvBytes, tuneStep{}) + prompt*h.prefillSeconds(m)
}

// A useCase is what people expect of a service, and the size of prefill chunks to begin with.
type useCase struct {
	Name  string  `json:"name"`
	TTFT  float64 `json:"ttft_s"`
	ITL   float64 `json:"itl_s"`
	E2E   float64 `json:"e2e_s"`
	chunk int
	reads bool // somebody reads along, and notices when it stops
}

// useCases are targets that operators publish for each kind of service. The chunks follow vLLM's guide to optimization: 2048 where the time
// between tokens counts, 8192 and more where the first token or throughput does.
var useCases = []useCase{
	{"chat", 0.5, 0.05, 10, 2048, true},
	{"code", 0.2, 0.03, 3, 2048, true},
	{"batch", 5, 0.1, 60, 16384, false},
	{"rag", 1, 0.08, 15, 8192, true},
	{"agents", 2, 0.1, 30, 4096, false},
}

func useCaseOf(name string) (useCase, error) {
	for _, u := range useCases {
		if u.Name == name {
			return u, nil
		}
	}
	return useCase{}, fmt.Errorf("--use-case %q is unknown: use chat, code, batch, rag or agents", name)
}

// answerWithin is how many tokens an answer can have within the end-to-end target, when first token and time between tokens use theirs up:
// E2E = TTFT + (tokens − 1) · ITL.
func (u useCase) answerWithin() int { return int((u.E2E-u.TTFT)/u.ITL+1e-9) + 1 }

// A pause of the tokens that is longer than this many of them is noticed; it is our own measure.
const pauseTokens = 10

// smallestChunk is where smaller chunks cost more in weights that are read again than they gain.
const smallestChunk = 512

// chunkFor is the size of prefill chunks: the use case's, halved while a step with a whole chunk would be a pause that readers notice.
// pause says how long a step with a chunk takes; nil: that is not known. vLLM demands at least as many tokens as sequences.
func chunkFor(u useCase, seqs int, pause func(chunk int) float64) int {
	chunk := u.chunk
	for pause != nil && u.reads && chunk > smallestChunk && pause(chunk) > pauseTokens*u.ITL {
		chunk /= 2
	}
	for chunk < seqs {
		chunk *= 2
	}
	return chunk
}
