package main

import (
	"errors"
	"fmt"
	"strings"
)

// A tuneSheet is what is known of a model and its GPUs without a live engine.
type tuneSheet struct {
	model             *tuneModel    // nil: nothing
	hardware          *tuneHardware // nil: nothing
	kvBytes           float64       // of one number in the KV cache
	blockSize, maxLen int
	average, prompt   float64 // tokens; 0: not known
	notes             []string
}

// whatV1Does is what many guides still have wrong.
var whatV1Does = []string{
	"vLLM V1 always prefills in chunks: --enable-chunked-prefill changes nothing, and --max-num-batched-tokens is the size of the chunks.",
	"vLLM V1 computes preempted requests anew and swaps nothing: --swap-space and --preemption-mode are gone.",
	"All of these are read at the start only. Change one in a rolling restart, and watch preemptions and the time between tokens.",
}

// times says whether the length of a step can be told.
func (s tuneSheet) times() bool {
	return s.model != nil && s.hardware != nil && s.hardware.Bandwidth > 0 && s.hardware.FLOPS > 0 && s.model.WeightBytes > 0 && s.model.ActiveParams > 0
}

// advise computes everything from the model and the GPUs.
func (s tuneSheet) advise(u useCase) (tuneAdvice, error) {
	a := tuneAdvice{UseCase: u, Model: s.model, Hardware: s.hardware, Settings: []tuneSetting{}, Notes: s.notes}
	switch {
	case s.model == nil:
		return a, errors.New("say which model: --model-config PATH, or --layers, --kv-heads and --head-dim; or a live one: --engine URL, --prometheus URL")
	case s.hardware == nil:
		return a, errors.New("say which GPUs: --gpu NAME, or --gpu-memory SIZE")
	case s.model.WeightBytes == 0:
		return a, errWeights
	}
	a.Facts = s.memory()
	h, m := *s.hardware, *s.model
	blocks := h.kvBlocks(m, s.kvBytes, s.blockSize)
	if blocks == 0 || s.maxLen > 0 && blocks*s.blockSize < s.maxLen {
		a.Finding = true
		a.Notes = append(a.Notes, s.tooSmall(blocks))
		return a, nil
	}
	a.Facts = append(a.Facts, tuneFact{"KV cache", fmt.Sprintf("%d blocks, %d tokens", blocks, blocks*s.blockSize),
		fmt.Sprintf("KV memory / (bytes a token on a GPU × %d)", s.blockSize)})
	return s.settings(a, tunePool{blocks: blocks, average: s.average, prompt: s.prompt})
}

// memory is how the KV cache's size comes about.
func (s tuneSheet) memory() []tuneFact {
	h, m := *s.hardware, *s.model
	shape := fmt.Sprintf("2 × %d layers × %d KV heads × %d × %g bytes", m.Layers, m.KVHeads, m.HeadDim, s.kvBytes)
	if m.Latent > 0 {
		shape = fmt.Sprintf("%d layers × %d of the latent vector × %g bytes", m.Layers, m.Latent, s.kvBytes)
	}
	out := []tuneFact{{"KV bytes a token", fmt.Sprintf("%.0f", m.kvBytesPerToken(s.kvBytes)), shape}}
	if h.TensorParallel > 1 {
		why := fmt.Sprintf("KV heads are divided among %d GPUs", h.TensorParallel)
		switch {
		case m.Latent > 0:
			why = "a latent vector is kept whole on every GPU"
		case h.TensorParallel > m.KVHeads:
			why = fmt.Sprintf("%d GPUs, %d KV heads: each keeps a whole one", h.TensorParallel, m.KVHeads)
		}
		out = append(out, tuneFact{"  on each GPU", fmt.Sprintf("%.0f", m.kvBytesPerGPU(s.kvBytes, h.TensorParallel)), why})
	}
	return append(out,
		tuneFact{"Weights on each GPU", gib(m.WeightBytes / float64(h.TensorParallel)), fmt.Sprintf("%s / %d", gib(m.WeightBytes), h.TensorParallel)},
		tuneFact{"KV memory on each GPU", gib(h.kvMemory(m)), fmt.Sprintf("%s × %g − weights − %s overhead", gib(h.MemoryBytes), h.Utilization, gib(h.OverheadBytes))})
}

func gib(bytes float64) string { return fmt.Sprintf("%.1f GiB", bytes/(1<<30)) }

// tooSmall says that the model does not fit, and what would help.
func (s tuneSheet) tooSmall(blocks int) string {
	h := *s.hardware
	for tp := h.TensorParallel * 2; tp <= 64; tp *= 2 {
		h.TensorParallel = tp
		if n := h.kvBlocks(*s.model, s.kvBytes, s.blockSize) * s.blockSize; n > 0 && n >= s.maxLen {
			what := "The weights leave no room for a KV cache"
			if blocks > 0 {
				what = fmt.Sprintf("The KV cache holds %d tokens, and one request of max_model_len needs %d", blocks*s.blockSize, s.maxLen)
			}
			return fmt.Sprintf("%s: the engine would not start. --tensor-parallel-size %d has room, or smaller weights, a KV cache in fp8, or a lower --max-model-len.", what, tp)
		}
	}
	return "The model does not fit these GPUs, however many work together: use smaller weights or larger GPUs."
}

// A tunePool is what the settings are computed from, read from a live engine or computed.
type tunePool struct {
	blocks          int
	average, prompt float64
	now             int // max_num_seqs; 0: not known
}

// settings fills in the advice.
func (s tuneSheet) settings(a tuneAdvice, p tunePool) (tuneAdvice, error) {
	if p.average <= 0 {
		return a, errors.New("say how long requests are: --avg-tokens, prompt and answer together")
	}
	seqs := safeMaxNumSeqs(p.blocks, s.blockSize, p.average)
	why := fmt.Sprintf("%.0f %% of %d KV blocks hold %d requests of %.0f tokens", 100*kvFill, p.blocks, seqs, p.average)
	if seqs < 1 {
		seqs = 1
		why = fmt.Sprintf("the KV cache holds hardly one request of %.0f tokens", p.average)
	}
	if s.times() {
		fast := s.hardware.seqsWithin(*s.model, s.kvBytes, p.average, a.UseCase.ITL)
		switch {
		case fast < 1:
			alone := s.hardware.stepSeconds(*s.model, s.kvBytes, tuneStep{})
			a.Notes = append(a.Notes, fmt.Sprintf("A token every %g ms is out of reach: reading the weights takes about %.0f ms. More tensor parallelism or smaller weights help, settings do not.", a.UseCase.ITL*1000, alone*1000))
		case fast < seqs:
			why = fmt.Sprintf("decoding more than about %d at a time takes over %g ms a token; the KV cache would hold %d", fast, a.UseCase.ITL*1000, seqs)
			seqs = fast
		}
	}
	a.Settings = append(a.Settings, tuneSetting{Flag: "--max-num-seqs", Value: seqs, Now: p.now, Why: why})
	s.chunk(&a, p, seqs)
	if s.maxLen > 0 {
		worst := p.blocks * s.blockSize / s.maxLen
		a.Facts = append(a.Facts, tuneFact{"At max_model_len", fmt.Sprintf("%d requests of %d tokens", worst, s.maxLen), "KV tokens / max_model_len: what holds if everybody writes that much"})
	}
	a.Facts = append(a.Facts, tuneFact{"Longest answer in time", fmt.Sprintf("%d tokens", a.UseCase.answerWithin()), fmt.Sprintf("(%g s − %g s) / %g s + 1", a.UseCase.E2E, a.UseCase.TTFT, a.UseCase.ITL)})
	if p.now > seqs {
		a.Finding = true
		a.Notes = append(a.Notes, fmt.Sprintf("max_num_seqs is %d now, more than the %d that are safe: under load it ends in preemptions or slow tokens.", p.now, seqs))
	}
	a.Notes = append(a.Notes, whatV1Does...)
	return a, nil
}

// chunk advises on the size of prefill chunks, and says what it costs whom.
func (s tuneSheet) chunk(a *tuneAdvice, p tunePool, seqs int) {
	u := a.UseCase
	var pause func(int) float64
	if s.times() {
		pause = func(chunk int) float64 {
			return s.hardware.stepSeconds(*s.model, s.kvBytes, tuneStep{sequences: float64(seqs), context: p.average, chunk: float64(chunk)})
		}
	}
	chunk := chunkFor(u, seqs, pause)
	var why []string
	switch {
	case chunk > u.chunk:
		why = append(why, "it may not be less than max_num_seqs")
	case chunk < u.chunk:
		why = append(why, fmt.Sprintf("a larger chunk would hold up every answer for more than %d tokens' time", pauseTokens))
	case u.chunk <= 2048:
		why = append(why, "small chunks keep tokens coming while prompts are read")
	default:
		why = append(why, "large chunks bring the first token, and throughput, sooner")
	}
	a.Settings = append(a.Settings, tuneSetting{Flag: "--max-num-batched-tokens", Value: chunk, Why: strings.Join(why, "; ")})
	if pause == nil {
		return
	}
	a.Facts = append(a.Facts, tuneFact{"A step with a whole chunk", fmt.Sprintf("about %.0f ms", 1000*pause(chunk)), "weights and KV read, and the chunk's arithmetic; running answers pause for so long"})
	if p.prompt <= 0 {
		return
	}
	idle := s.hardware.ttftIdle(*s.model, s.kvBytes, p.prompt, float64(chunk))
	a.Facts = append(a.Facts, tuneFact{"First token on an idle worker", fmt.Sprintf("about %.2f s", idle), fmt.Sprintf("a prompt of %.0f tokens, nothing cached", p.prompt)})
	if idle > u.TTFT {
		a.Notes = append(a.Notes, fmt.Sprintf("A first token within %g s is out of reach for prompts of %.0f tokens that nothing is cached of (about %.2f s): shared prefixes, more tensor parallelism or shorter prompts help, settings do not.", u.TTFT, p.prompt, idle))
	}
}
