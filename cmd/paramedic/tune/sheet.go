package tune

import (
	"errors"
	"fmt"
	"strings"

	"paramedic/internal/text"
	"paramedic/remediate"
)

// A Sheet has what is known about a model and its GPUs without a live engine.
type Sheet struct {
	model             *Model    // nil: nothing
	hardware          *Hardware // nil: nothing
	kvBytes           float64   // of one number in the KV cache
	blockSize, maxLen int
	load              // 0: not known
}

// times reports whether the duration of a step can be computed.
func (s Sheet) times() bool {
	return s.model != nil && s.hardware != nil && s.hardware.Bandwidth > 0 && s.hardware.FLOPS > 0 &&
		s.model.WeightBytes > 0 && s.model.ActiveParams > 0
}

// Advise computes everything from the model and the GPUs, for vLLM. Other engines give the KV cache
// another share of the memory.
func (s Sheet) Advise(u UseCase) (Advice, error) {
	engine := engines["vllm"]
	a := Advice{Engine: engine.name, UseCase: u, Model: s.model, Hardware: s.hardware, Settings: []Setting{},
		Targets: []Target{}, Notes: []string{}}
	switch {
	case s.model == nil:
		return a, errors.New("the model is missing: use --model-config PATH, or --layers, --kv-heads and --head-dim. For a " +
			"live model, use --engine URL or --prometheus URL")
	case s.hardware == nil:
		return a, errors.New("the GPU is missing: use --gpu NAME, or --gpu-memory SIZE")
	case s.model.WeightBytes == 0:
		return a, errWeights
	}
	h, m := *s.hardware, *s.model
	s.blockSize = m.fittingBlockSize(s.blockSize, s.kvBytes, h.TensorParallel)
	a.Facts = s.memory()
	blocks := h.kvBlocks(m, s.kvBytes, s.blockSize)
	if !s.holds(h) {
		a.Finding = true
		a.Notes = append(a.Notes, s.tooSmall(blocks))
		return a, nil
	}
	a.Facts = append(a.Facts, Fact{"KV cache", s.cache(blocks),
		fmt.Sprintf("KV memory / (%.1f KiB per block of %d tokens)",
			m.blockBytes(s.kvBytes, h.TensorParallel, s.blockSize)/1024, s.blockSize)})
	p := poolInput{engine: engine, blocks: blocks, load: s.load}
	a, err := s.settings(a, p)
	if err != nil {
		return a, err
	}
	a.Finding = a.Finding || a.missed()
	if m.WindowLayers > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d of %d layers keep only the last %d tokens, because vLLM's hybrid KV "+
			"cache manager frees the others. With --disable-hybrid-kv-cache-manager, or a KV connector "+
			"without support for it, all layers keep all tokens.", m.WindowLayers, m.Layers+m.WindowLayers+m.StateLayers, m.Window))
	}
	if m.StateLayers > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d of %d layers keep one state per request. vLLM stores it in blocks "+
			"of %d tokens: two blocks with prefix caching, as assumed here, or one without.", m.StateLayers,
			m.Layers+m.StateLayers, s.blockSize))
	}
	a.Notes = append(a.Notes, engine.notes...)
	return a, nil
}

// cache returns the size of the KV cache in words. It adds tokens if all layers keep the same
// number.
func (s Sheet) cache(blocks int) string {
	switch {
	case s.blockSize == 1: // SGLang counts tokens
		return fmt.Sprintf("%d tokens", blocks)
	case s.model != nil && s.model.mixed():
		return fmt.Sprintf("%d blocks", blocks)
	}
	return fmt.Sprintf("%d blocks, %d tokens", blocks, blocks*s.blockSize)
}

// each returns the number of blocks that a request takes on an engine. Engines other than vLLM
// export the size of the pool for the layers that keep everything.
func (s Sheet) each(e engineFlags, tokens float64) float64 {
	if s.model != nil && e.name == engines["vllm"].name {
		return s.model.blocksOf(tokens, s.blockSize)
	}
	return tokens / float64(s.blockSize)
}

// holds reports whether the GPUs have room for the model and a request of max_model_len.
func (s Sheet) holds(h Hardware) bool {
	size := s.model.fittingBlockSize(s.blockSize, s.kvBytes, h.TensorParallel)
	blocks := h.kvBlocks(*s.model, s.kvBytes, size)
	return blocks > 0 && s.model.blocksOf(float64(s.maxLen), size) <= float64(blocks)
}

// memory returns the facts behind the size of the KV cache.
func (s Sheet) memory() []Fact {
	h, m := *s.hardware, *s.model
	layers := fmt.Sprintf("%d layers", m.Layers)
	if m.mixed() {
		layers = fmt.Sprintf("%d layers that keep every token", m.Layers)
	}
	shape := fmt.Sprintf("2 × %s × %d KV heads × %d × %g bytes", layers, m.KVHeads, m.HeadDim, s.kvBytes)
	switch {
	case m.LatentBytes > 0:
		shape = fmt.Sprintf("%s × %g bytes of the latent vector and the indexer's key", layers, m.LatentBytes)
	case m.Latent > 0:
		shape = fmt.Sprintf("%s × %d of the latent vector × %g bytes", layers, m.Latent, s.kvBytes)
	}
	var out []Fact
	if m.Layers > 0 {
		out = append(out, Fact{"KV bytes per token", fmt.Sprintf("%.0f", m.kvBytesPerToken(s.kvBytes)), shape})
	}
	if m.WindowLayers > 0 {
		out = append(out, Fact{"  in the window",
			fmt.Sprintf("%.0f", float64(m.WindowLayers)*m.layerBytes(s.kvBytes, 1)),
			fmt.Sprintf("in addition, in %d layers, for each of the last %d tokens", m.WindowLayers, m.Window)})
	}
	if m.StateLayers > 0 {
		out = append(out, Fact{"  of a request's states", fmt.Sprintf("%.0f", float64(m.StateLayers)*m.StateBytes),
			fmt.Sprintf("in addition, %d layers × %.0f bytes, for a request of any length", m.StateLayers, m.StateBytes)})
	}
	if h.TensorParallel == 1 {
		out = append(out, Fact{"Weights", gib(m.WeightBytes), "on one GPU"})
	} else {
		why := fmt.Sprintf("KV heads are divided among %d GPUs", h.TensorParallel)
		switch {
		case m.Latent > 0:
			why = "every GPU keeps the whole latent vector"
		case h.TensorParallel > m.KVHeads:
			why = fmt.Sprintf("%d GPUs, %d KV heads: each GPU keeps one whole head", h.TensorParallel, m.KVHeads)
		}
		if m.Layers > 0 {
			out = append(out, Fact{"  per token on each GPU",
				fmt.Sprintf("%.0f", m.kvBytesPerGPU(s.kvBytes, h.TensorParallel)), why})
		}
		out = append(out, Fact{"Weights on each GPU", gib(m.WeightBytes / float64(h.TensorParallel)),
			fmt.Sprintf("%s / %d", gib(m.WeightBytes), h.TensorParallel)})
	}
	return append(out, Fact{"KV memory on each GPU", gib(h.kvMemory(m)),
		fmt.Sprintf("%s × %g − weights − %s overhead", gib(h.MemoryBytes), h.Utilization, gib(h.OverheadBytes))})
}

func gib(bytes float64) string { return fmt.Sprintf("%.1f GiB", bytes/(1<<30)) }

// tooSmall returns a note that the model does not fit, with remedies.
func (s Sheet) tooSmall(blocks int) string {
	var help []string
	for _, n := range s.model.ranks(mostRanks) {
		h := *s.hardware
		if h.TensorParallel = n; n > s.hardware.TensorParallel && s.holds(h) {
			help = append(help, fmt.Sprintf("--tensor-parallel-size %d", n))
			break
		}
	}
	what := "The weights leave no room for a KV cache"
	h := *s.hardware
	if left := h.kvMemory(*s.model) + h.OverheadBytes; blocks == 0 && left > 0 && h.OverheadBytes > 0 {
		what = fmt.Sprintf("The weights leave %s on each GPU, and --overhead %s leaves no room for a KV cache", gib(left),
			gib(h.OverheadBytes))
		help = append(help, fmt.Sprintf("--overhead below %s, if the engine's log confirms it",
			gib(left)))
	}
	if blocks > 0 {
		what = fmt.Sprintf("One request of max_model_len takes %.0f KV blocks, and there are %d",
			s.model.blocksOf(float64(s.maxLen), s.blockSize), blocks)
		if n := s.longest(blocks); n > 0 {
			help = append(help, fmt.Sprintf("--max-model-len %d", n))
		}
	}
	if len(help) == 0 {
		return what + ": the engine would not start, and more of these GPUs do not help. " +
			"Use smaller weights or larger GPUs."
	}
	return fmt.Sprintf("%s: the engine would not start. There is room with %s, or with smaller weights.", what,
		strings.Join(help, ", or "))
}

// longest returns the longest request that fits into the blocks, in whole blocks.
func (s Sheet) longest(blocks int) int {
	n := s.maxLen / s.blockSize
	for n > 0 && s.model.blocksOf(float64(n*s.blockSize), s.blockSize) > float64(blocks) {
		n -= max(1, n/256)
	}
	return n * s.blockSize
}

// A poolInput has the values that settings are computed from, measured or computed.
type poolInput struct {
	load
	engine  engineFlags
	blocks  int
	now     int  // max_num_seqs; 0: not known
	running int  // most at a time on one worker, live
	idle    bool // live, and nothing waits
	inTime  bool // live, and tokens come within their target
}

// settings adds settings, targets and notes to the advice.
func (s Sheet) settings(a Advice, p poolInput) (Advice, error) {
	if p.average <= 0 {
		return a, errors.New("the length of requests is missing: use --avg-tokens, prompt and answer together")
	}
	seqs, why := s.sequences(a.UseCase, p)
	a.Settings = append(a.Settings, Setting{Flag: p.engine.seqs, Value: seqs, Now: p.now, Why: why})
	chunk := s.chunk(&a, p, seqs)
	a.Targets = append(a.Targets, s.targets(a.UseCase, p, seqs, chunk)...)
	if s.maxLen > 0 {
		a.Facts = append(a.Facts, Fact{"At the longest",
			fmt.Sprintf("%s of %d tokens", text.Count(int(float64(p.blocks)/s.each(p.engine, float64(s.maxLen))),
				"request"),
				s.maxLen), "how many fit if each uses the whole context"})
	}
	if n := a.UseCase.answerWithin(); n > 0 {
		u := a.UseCase
		a.Facts = append(a.Facts, Fact{"Longest answer in time", fmt.Sprintf("%d tokens", n),
			fmt.Sprintf("(%g s − %g s) / %g s + 1", u.E2E, u.TTFT, u.ITL)})
	}
	if need := s.each(p.engine, p.average); need > float64(p.blocks) {
		a.Finding = true
		a.Notes = append(a.Notes, fmt.Sprintf("One request of the average length takes %.0f KV blocks, and there are %d: use more GPUs "+
			"or a smaller model.", need, p.blocks))
	}
	switch {
	case p.now > seqs:
		a.Finding = true
		a.Notes = append(a.Notes, fmt.Sprintf("%s is %d now, but only %d are safe: under load, requests are "+
			"preempted or tokens get slow.", p.engine.seqs, p.now, seqs))
	case p.now > 0 && p.now < seqs && p.idle:
		a.Notes = append(a.Notes, fmt.Sprintf("%s is %d now and no request waits: a higher value has no effect until "+
			"traffic grows.", p.engine.seqs, p.now))
	}
	return a, nil
}

// sequences returns the safe number of concurrent sequences, and the reason. It is what the KV
// cache holds, or fewer if tokens would come too slowly.
func (s Sheet) sequences(u UseCase, p poolInput) (int, string) {
	fit := safeMaxNumSeqs(p.blocks, s.each(p.engine, p.average))
	if fit < 1 {
		return 1, fmt.Sprintf("the KV cache holds hardly one request of %.0f tokens", p.average)
	}
	seqs := graphSize(fit)
	of := "KV blocks"
	if s.blockSize == 1 {
		of = "tokens of KV cache"
	}
	why := fmt.Sprintf("%.0f %% of %d %s hold %d requests of %.0f tokens", 100*remediate.KVFill, p.blocks, of, fit,
		p.average)
	if seqs < fit {
		why += "; rounded down to a multiple of 8, as engines capture graphs"
	}
	if !s.times() {
		most := u.untimedCap()
		if p.inTime && p.running > most {
			most = graphSize(p.running)
		}
		if most < seqs {
			return most, fmt.Sprintf("more than %d risk over %g ms per token, because the speed of the GPU is not "+
				"known (--gpu NAME); the KV cache would hold %d", most, u.ITL*1000, fit)
		}
		return seqs, why
	}
	if fast := graphSize(s.hardware.seqsWithin(*s.model, s.kvBytes, p.load, u.ITL)); fast >= 1 && fast < seqs {
		return fast, fmt.Sprintf("more than about %d at a time take over %g ms per token; the KV cache would hold %d",
			fast, u.ITL*1000, fit)
	}
	return seqs, why
}

// chunk adds the advised size of prefill chunks, and what it costs.
func (s Sheet) chunk(a *Advice, p poolInput, seqs int) int {
	u := a.UseCase
	var pause func(int) float64
	if s.times() {
		pause = func(chunk int) float64 {
			return s.hardware.stepSeconds(*s.model, s.kvBytes,
				step{sequences: float64(seqs), context: p.average, chunk: float64(chunk)})
		}
	}
	least := 0
	if p.engine.shared {
		least = seqs
	}
	chunk := chunkFor(u, least, pause)
	why := "large chunks give an earlier first token and more throughput"
	switch {
	case chunk > u.chunk:
		why = "it must not be less than " + p.engine.seqs
	case chunk < u.chunk && pause == nil:
		why = "small chunks, because this use case needs fast tokens"
	case chunk < u.chunk:
		why = fmt.Sprintf("a larger chunk would pause every answer for the time of more than %d tokens", pauseTokens)
	case u.chunk <= readersChunk:
		why = "small chunks keep answers fast during the prefill of other prompts"
	}
	a.Settings = append(a.Settings, Setting{Flag: p.engine.chunk, Value: chunk, Why: why})
	if pause != nil {
		a.Facts = append(a.Facts, Fact{"A step with a whole chunk", fmt.Sprintf("about %.0f ms", 1000*pause(chunk)),
			"read weights and KV, and compute the chunk; running answers pause this long"})
	}
	return chunk
}
