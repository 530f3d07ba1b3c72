package engine

import (
	"slices"

	"paramedic/lab/metrics"
)

// sglangStats holds an SGLang worker's counters. Its scheduler updates the gauges when it logs: at
// each batch with prefill, at each fortieth decode step, and every 30 s while idle. In a hang they
// keep their values. Except for realtime_tokens_total, tokens and requests are counted when a
// request ends. A nil *sglangStats stands for another kind and counts nothing.
type sglangStats struct {
	seen    sglangGauges
	logged  float64 // when the gauges were refreshed last
	decodes float64 // decode steps

	decoded         float64 // tokens since the last decode log
	decodedAt       float64
	retracted       int // since the last log
	stepHit         int // cached tokens of the requests that the step under way admits
	compute, cached float64
	generated       float64 // these three as in realtime_tokens_total

	requests, aborted, prompt, output float64

	ttft, itl, e2e, queue, stage, retractions *metrics.Histogram
}

// sglangGauges holds the gauges as the scheduler logged them last.
type sglangGauges struct {
	running, waiting, used, lengths, retracted int
	usage, hitRate, throughput                 float64
	graph                                      bool
}

const (
	decodeLogInterval = 40   // decode steps, --decode-log-interval
	idleLogInterval   = 30.0 // seconds
)

func newSGLangStats(now float64) *sglangStats {
	h := metrics.NewHistogram
	return &sglangStats{logged: now, decodedAt: now, ttft: h(sglangTTFTEdges), itl: h(sglangITLEdges),
		e2e:   h(sglangE2EEdges),
		queue: h(sglangQueueEdges), stage: h(sglangStageEdges), retractions: h(sglangRetractionEdges)}
}

// admitted counts a request that leaves the queue.
func (s *sglangStats) admitted(r *Request, now float64, cached int) {
	if s == nil {
		return
	}
	s.stepHit += cached
	if r.preempted == 0 {
		s.queue.Observe(now - r.Arrived)
		s.stage.Observe(now - r.Arrived)
	}
}

// step logs a planned batch as the scheduler does.
func (s *sglangStats) step(e *Engine, prefill int, now float64) {
	if s == nil {
		return
	}
	decoding := 0
	for _, r := range e.planned {
		if r.step == 1 {
			decoding++
		}
	}
	if prefill > 0 {
		s.compute += float64(prefill)
		s.cached += float64(s.stepHit)
		s.log(e, now)
		s.seen.hitRate = float64(s.stepHit) / float64(s.stepHit+prefill)
		s.seen.graph = false
		s.stepHit = 0
	}
	if decoding == 0 {
		return
	}
	s.decoded += float64(decoding)
	if s.decodes++; int(s.decodes)%decodeLogInterval == 0 {
		s.generated += s.decoded
		s.log(e, now)
		// a decode log has no prefix to look up
		s.seen.throughput, s.seen.hitRate, s.seen.graph = s.decoded/max(now-s.decodedAt, 1e-3), 0, true
		s.decoded, s.decodedAt = 0, now
	}
}

// idle logs as an idle scheduler does.
func (s *sglangStats) idle(e *Engine, now float64) {
	if s == nil || len(e.running)+len(e.waiting) > 0 || now-s.logged < idleLogInterval {
		return
	}
	s.log(e, now)
	s.generated, s.decoded, s.decodedAt = s.generated+s.decoded, 0, now
	s.seen.throughput, s.seen.hitRate = 0, 0
}

func (s *sglangStats) log(e *Engine, now float64) {
	lengths := 0
	for _, r := range e.running {
		lengths += r.computed
	}
	g := &s.seen
	g.running, g.waiting, g.lengths, g.retracted = len(e.running), len(e.waiting), lengths, s.retracted
	g.used, g.usage = (e.kv.total-e.kv.free)*BlockSize, e.kv.usage()
	s.logged, s.retracted = now, 0
}

// token observes a generated token.
func (s *sglangStats) token(r *Request, now float64) {
	if r.FirstToken == 0 {
		s.ttft.Observe(now - r.Arrived)
		return
	}
	s.itl.Observe(now - r.LastToken)
}

// ended counts a request that leaves the running batch, complete or aborted.
func (s *sglangStats) ended(r *Request, now float64) {
	if s == nil {
		return
	}
	s.requests++
	s.prompt += float64(r.Prompt)
	s.output += float64(r.Generated)
	s.e2e.Observe(now - r.Arrived)
	s.retractions.Observe(float64(r.preempted))
}

// abort counts a cancelled request. It counts as processed only if it ran.
func (s *sglangStats) abort(r *Request, now float64) {
	if s == nil {
		return
	}
	s.aborted++
	if r.running {
		s.ended(r, now)
	}
}

// retract puts a preempted request at the end of the queue; vLLM puts it at the head.
func (e *Engine) retract(r *Request) {
	e.sglang.retracted++
	e.waiting = append(e.waiting, r)
}

// The bucket edges of SGLang.
var (
	sglangTTFTEdges = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangE2EEdges  = slices.Concat(sglangTTFTEdges, []float64{600, 1200, 1800, 2400})
	sglangITLEdges  = []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2,
		.4, .6, .8, 1, 2, 4, 6, 8}
	sglangRetractionEdges = []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 75, 100}
	sglangQueueEdges      = []float64{0, .1, .2, .5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200,
		300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000}
	sglangStageEdges = exponential(.001, 1.62, 30)
)

// exponential returns n edges, each the one before times factor.
func exponential(first, factor float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = first
		first *= factor
	}
	return out
}
