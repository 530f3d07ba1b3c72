package engine

import "cmp"

// Settings holds the settings in a worker's arguments.
type Settings struct {
	MaxNumSeqs           int     // default 256
	MaxNumBatchedTokens  int     // default 2048
	MaxModelLen          int     // default 32768
	GPUMemoryUtilization float64 // default 0.90
	NumGPUBlocks         int     // KV blocks of BlockSize tokens; default Cost.Blocks of the memory utilization
	NoPrefixCaching      bool
}

// WithDefaults returns the settings with the defaults of vLLM in place of zeros.
func (s Settings) WithDefaults() Settings {
	s.MaxNumSeqs = cmp.Or(s.MaxNumSeqs, 256)
	s.MaxNumBatchedTokens = cmp.Or(s.MaxNumBatchedTokens, 2048)
	s.MaxModelLen = cmp.Or(s.MaxModelLen, 32768)
	s.GPUMemoryUtilization = cmp.Or(s.GPUMemoryUtilization, 0.90)
	return s
}

// Blocks returns the number of KV blocks that an engine with these settings has.
func (s Settings) Blocks(c Cost) int {
	if s.NumGPUBlocks > 0 {
		return s.NumGPUBlocks
	}
	return c.Blocks(s.GPUMemoryUtilization)
}
