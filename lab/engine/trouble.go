package engine

// A Trouble holds what is wrong with an engine. The zero value is a healthy one.
type Trouble struct {
	Prefill   float64 // multiplies the time of prefill; 0: 1
	Keeps     int     // every so many ended requests, the KV blocks of one stay held; 0: none
	KeepsLong bool    // blocks of every ended request with [Request.Long] stay held
	Uncached  bool    // no prompt finds its prefix in the cache
}

// keep leaves the blocks of an ended request held, if the trouble is a leak.
func (e *Engine) keep(r *Request) {
	t := e.trouble
	e.ended++
	if t.Keeps > 0 && e.ended%t.Keeps == 0 || t.KeepsLong && r.Long {
		e.kv.leaked += r.blocks
		r.blocks = 0
	}
}

// slowPrefill returns the seconds that a step with so many prefill tokens takes longer than usual.
func (e *Engine) slowPrefill(tokens int) float64 {
	return max(0, e.trouble.Prefill-1) * e.Cost.PerPrefillToken * float64(tokens)
}

// The host's part of a step, while the GPU waits: scheduling, sampling, detokenizing, streaming.
// With enough CPU most of it is hidden, and the rest is in Cost.Base and Cost.PerSequence. A
// container with too low a CPU limit exceeds its CFS quota and sleeps until the next period of 100
// ms. A step then loses most of a period, and a larger batch more.
const (
	hostGap    = 0.13   // seconds per step at severity 1: about a period
	hostGapSeq = 0.0004 // seconds per sequence
)

// gap returns the seconds that the GPU waits for the host before a step.
func (e *Engine) gap(sequences int) float64 {
	return e.Host * (hostGap + hostGapSeq*float64(sequences))
}

// logitBytes is the memory of one prompt token with prompt_logprobs: the logits of Llama 3's
// vocabulary and their logarithms, both in 32 bits. vLLM's profile run, which sizes the KV cache,
// does not count them.
const logitBytes = 2 * 4 * 128256

// TakeLogitBytes returns the GPU memory beside the KV cache that the largest step since the last
// call needed for the probabilities of prompts, in bytes.
func (e *Engine) TakeLogitBytes() float64 {
	n := float64(e.scored) * logitBytes
	e.scored = 0
	return n
}
