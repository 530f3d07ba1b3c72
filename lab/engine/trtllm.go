package engine

import "paramedic/lab/metrics"

// trtllmStats holds a TensorRT-LLM worker's counters that differ from vLLM's. A request is observed
// when it ends, including its first token. The gauges describe the last iteration: they freeze in a
// hang, and are absent before the first iteration. A nil *trtllmStats stands for another kind and
// counts nothing.
type trtllmStats struct {
	iterated                   bool
	active, queued             int // requests accepted, and those beyond the largest batch
	context, generation        int // requests in the last iteration
	paused                     int // by the last iteration
	contextTokens, preemptions int
	latency                    float64

	prompt, output, cached                        float64
	ttft, prefill, cachedTokens, iterationPrefill *metrics.Histogram
}

func newTRTLLMStats() *trtllmStats {
	h := metrics.NewHistogram
	return &trtllmStats{ttft: h(ttftEdges), prefill: h(trtllmPrefillEdges), cachedTokens: h(trtllmCachedEdges),
		iterationPrefill: h(trtllmIterationEdges)}
}

// step records an iteration with its tokens of prefill and its duration.
func (s *trtllmStats) step(e *Engine, prefill int, took float64) {
	if s == nil {
		return
	}
	s.iterated = true
	s.context = 0
	for _, r := range e.planned {
		if r.step > 1 {
			s.context++
		}
	}
	s.generation, s.contextTokens, s.latency = len(e.planned)-s.context, prefill, took
	s.paused, s.preemptions = int(e.stats.preemptions)-s.preemptions, int(e.stats.preemptions)
	if prefill > 0 {
		s.iterationPrefill.Observe(float64(prefill))
	}
}

// look counts the requests, as iterations do many times between two ticks. The executor accepts as
// many as its largest batch holds and counts them as active, with or without KV blocks.
func (s *trtllmStats) look(e *Engine) {
	if s == nil || e.Hung {
		return
	}
	load := len(e.running) + len(e.waiting)
	s.active = min(load, e.MaxSeqs)
	s.queued = load - s.active
}

// complete observes a request with a complete answer.
func (s *trtllmStats) complete(r *Request) {
	if s == nil {
		return
	}
	s.ttft.Observe(r.FirstToken - r.Arrived)
	s.prefill.Observe(r.FirstToken - r.scheduled)
	s.ended(r)
}

// ended counts a request that leaves, complete or cancelled.
func (s *trtllmStats) ended(r *Request) {
	if s == nil {
		return
	}
	s.prompt += float64(r.Prompt)
	s.output += float64(r.Generated)
	s.cached += float64(r.cachedHit)
	s.cachedTokens.Observe(float64(r.cachedHit))
}

// The bucket edges of TensorRT-LLM (its metrics/collector.py) that differ from vLLM's.
var (
	trtllmPrefillEdges   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560}
	trtllmCachedEdges    = []float64{0, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
	trtllmIterationEdges = []float64{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
)
