package engine

import "cmp"

// Cost holds the hardware and the model, which set the time of an engine step:
//
//	Base + PerPrefillToken · prefill tokens + PerSequence · decoded sequences
//	     + PerKVToken · KV tokens read
//
// The defaults are Llama-3 70B (70.6e9 parameters, 80 layers, 8 KV heads of 128, so 2·80·8·128·2
// bytes = 327,680 bytes of bf16 KV per token) with FP8 weights and bf16 arithmetic on two H100 SXM
// (80 GB, 3.35 TB/s and 989 dense TFLOP/s each):
//
//   - Base: a decode step is bound by memory, because it reads every weight once:
//     70.6e9 B / (2 · 3.35e12 B/s · 0.85) = 12.4 ms. Launches and all-reduce take 1 ms.
//   - PerPrefillToken: prefill is bound by arithmetic:
//     2 · 70.6e9 FLOP / (2 · 989e12 · 0.35) = 204 µs.
//   - PerSequence: sampling, detokenizing and scheduling, 30 µs.
//   - PerKVToken: paged attention reads with half of the bandwidth:
//     327,680 B / (2 · 3.35e12 B/s · 0.5) = 98 ns.
//
// The KV cache gets the rest of 2 · 80 GB at a memory utilization of 0.9, after 70.6 GB of weights
// and 12 GB of activations and CUDA graphs: 61.4e9 / (16 · 327,680) = 11,711 blocks of 16 tokens.
type Cost struct {
	Base            float64 // seconds
	PerPrefillToken float64
	PerSequence     float64
	PerKVToken      float64

	KVBytesPerToken int
	MemoryBytes     float64 // of all GPUs of the worker
	WeightBytes     float64
	OverheadBytes   float64
}

// WithDefaults returns the cost with the defaults for a number of GPUs in place of zeros.
func (c Cost) WithDefaults(gpus int) Cost {
	n := float64(gpus)
	const params, bandwidth, flops = 70.6e9, 3.35e12 * 0.85, 989e12 * 0.35
	c.KVBytesPerToken = cmp.Or(c.KVBytesPerToken, 327680)
	c.WeightBytes = cmp.Or(c.WeightBytes, params)
	c.OverheadBytes = cmp.Or(c.OverheadBytes, 12e9)
	c.MemoryBytes = cmp.Or(c.MemoryBytes, n*80e9)
	c.Base = cmp.Or(c.Base, c.WeightBytes/(n*bandwidth)+0.001)
	c.PerPrefillToken = cmp.Or(c.PerPrefillToken, 2*params/(n*flops))
	c.PerSequence = cmp.Or(c.PerSequence, 30e-6)
	c.PerKVToken = cmp.Or(c.PerKVToken, float64(c.KVBytesPerToken)/(n*3.35e12*0.5))
	return c
}

// Step returns the time of a step in seconds.
func (c Cost) Step(prefillTokens, sequences, kvTokens int) float64 {
	return c.Base + c.PerPrefillToken*float64(prefillTokens) + c.PerSequence*float64(sequences) +
		c.PerKVToken*float64(kvTokens)
}

// Blocks returns how many KV blocks fit at a memory utilization.
func (c Cost) Blocks(utilization float64) int {
	left := c.MemoryBytes*utilization - c.WeightBytes - c.OverheadBytes
	return max(0, int(left/float64(c.KVBytesPerToken*BlockSize)))
}
