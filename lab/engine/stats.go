package engine

import (
	"math"

	"paramedic/lab/metrics"
)

// stats holds an engine's counters since its process started.
type stats struct {
	promptTokens, generationTokens float64
	prefixQueries, prefixHits      float64
	preemptions                    float64
	finished                       map[string]float64
	http                           map[string]float64 // by status class
	busy, tensor                   float64            // seconds of steps, and of the arithmetic in them

	ttft, itl, tpot                           *metrics.Histogram
	e2e, queue, inference, prefill, decode    *metrics.Histogram
	promptLen, outputLen, iteration           *metrics.Histogram
	maxTokens, paramN, computedTokens, params *metrics.Histogram
}

func newStats() stats {
	h := metrics.NewHistogram
	return stats{
		finished: map[string]float64{}, http: map[string]float64{},
		ttft: h(ttftEdges), itl: h(itlEdges), tpot: h(itlEdges),
		e2e: h(latencyEdges), queue: h(latencyEdges), inference: h(latencyEdges), prefill: h(latencyEdges), decode: h(latencyEdges),
		promptLen: h(tokenEdges), outputLen: h(tokenEdges), iteration: h(stepEdges),
		maxTokens: h(tokenEdges), paramN: h(paramNEdges), computedTokens: h(tokenEdges), params: h(tokenEdges),
	}
}

// complete records what vLLM records only at a request's end: queue, prefill, decode and end-to-end
// time.
func (s *stats) complete(r *Request, now float64, reason string) {
	s.finished[reason]++
	s.e2e.Observe(now - r.Arrived)
	s.queue.Observe(r.scheduled - r.Arrived)
	s.inference.Observe(now - r.scheduled)
	s.prefill.Observe(r.FirstToken - r.scheduled)
	s.decode.Observe(r.LastToken - r.FirstToken)
	if r.Generated > 1 {
		s.tpot.Observe((r.LastToken - r.FirstToken) / float64(r.Generated-1))
	} else {
		s.tpot.Observe(0)
	}
	s.promptLen.Observe(float64(r.Prompt))
	s.outputLen.Observe(float64(r.Generated))
	s.maxTokens.Observe(float64(r.Output))
	s.params.Observe(float64(r.MaxTokens))
	s.paramN.Observe(1)
	s.computedTokens.Observe(float64(r.Prompt - r.cachedHit))
}

// The bucket edges of vLLM V1.
var (
	ttftEdges = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
		640, 2560}
	itlEdges     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	latencyEdges = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokenEdges   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000}
	stepEdges    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramNEdges  = []float64{1, 2, 5, 10, 20}
)

// StepEnd returns the time at which the step that runs ends, or +Inf if none runs.
func (e *Engine) StepEnd() float64 {
	if !e.stepping {
		return math.Inf(1)
	}
	return e.stepEnd
}

// Running returns the number of requests that have started.
func (e *Engine) Running() int { return len(e.running) }

// Waiting returns the number of requests in the queue.
func (e *Engine) Waiting() int { return len(e.waiting) }

// Load returns the number of all requests. A nil engine has none.
func (e *Engine) Load() int {
	if e == nil {
		return 0
	}
	return len(e.running) + len(e.waiting)
}

// Unanswered returns the number of requests without a first token.
func (e *Engine) Unanswered() int {
	n := 0
	for _, list := range [][]*Request{e.running, e.waiting} {
		for _, r := range list {
			if r.FirstToken == 0 {
				n++
			}
		}
	}
	return n
}

// Settings returns the settings with which the engine started.
func (e *Engine) Settings() Settings { return e.settings }

// Blocks returns the number of KV blocks, free ones included.
func (e *Engine) Blocks() int { return e.kv.total }

// Shrink takes free KV blocks away for good until no more than a share of the first number is left.
func (e *Engine) Shrink(share float64) { e.kv.shrink(share) }

// KVUsage returns the share of the KV blocks that requests hold, from 0 to 1.
func (e *Engine) KVUsage() float64 { return e.kv.usage() }

// Preemptions returns the number of preemptions since the engine's start.
func (e *Engine) Preemptions() float64 { return e.stats.preemptions }

// GeneratedTokens returns the number of generated tokens since the engine's start.
func (e *Engine) GeneratedTokens() float64 { return e.stats.generationTokens }

// Busy returns the seconds of all steps since the engine's start, and of the arithmetic of prefill
// in them. A step counts when it begins.
func (e *Engine) Busy() (steps, tensor float64) { return e.stats.busy, e.stats.tensor }

// Spins reports whether the engine hangs in a collective that never completes, which keeps its GPUs
// busy.
func (e *Engine) Spins() bool { return e.Hung && len(e.running) > 0 }
