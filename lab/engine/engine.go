package engine

import (
	"cmp"
	"math/rand/v2"

	"paramedic/lab/metrics"
)

// An Engine is one worker's scheduler and cache. It follows vLLM V1's rules and replaces the model
// by its cost. Times are seconds since the fleet's start. It is not safe for concurrent use.
type Engine struct {
	// A caller may change these between two calls.
	MaxSeqs int     // requests that run at once, at most
	Budget  int     // tokens of a step, at most
	Cost    Cost    // of the steps from now on
	Slow    float64 // multiplies the time of a step; 1 is healthy
	Host    float64 // severity of the host's CPU shortage; 0: none
	Hung    bool    // it begins no step and processes no cancellation
	Leaky   bool    // blocks of cancelled requests are never freed

	kind     Kind
	settings Settings
	caching  bool
	kv       *blockPool
	prefixes map[int]*prefix
	groupLen int // tokens shared in a group
	rng      *rand.Rand

	waiting []*Request // head first
	running []*Request // oldest admission first
	planned []*Request

	stepping bool
	stepEnd  float64
	trouble  *Trouble
	ended    int // requests that the trouble counted

	scored int // most prompt tokens with prompt_logprobs in one step since the last tick

	stats   stats
	sglang  *sglangStats  // of an SGLang worker
	trtllm  *trtllmStats  // of a TensorRT-LLM worker
	handler *handlerStats // of a Dynamo worker
	front   Front         // of a Dynamo worker
}

// A Config holds what an engine starts with.
type Config struct {
	Kind        Kind
	Settings    Settings
	Cost        Cost
	GroupTokens int        // the common start of a group's prompts, unless the request has its own
	Rand        *rand.Rand // varies the time of steps
	Trouble     *Trouble   // read at each step, so that the caller can change it; nil: none
	Front       Front      // of Dynamo; other kinds do not use it
}

// A Front is the frontend through which Dynamo's workers answer.
type Front interface {
	// Token observes a token on its way to the client, before it changes the request.
	Token(r *Request, now float64)
	// Ended observes an answer that is complete or, if not whole, cancelled.
	Ended(r *Request, now float64, whole bool)
}

// New returns an idle engine whose process serves from now on.
func New(c Config, now float64) *Engine {
	e := &Engine{
		MaxSeqs: c.Settings.MaxNumSeqs, Budget: c.Settings.MaxNumBatchedTokens, Cost: c.Cost, Slow: 1,
		kind: c.Kind, settings: c.Settings, caching: !c.Settings.NoPrefixCaching,
		kv: newBlockPool(c.Settings.Blocks(c.Cost)), prefixes: map[int]*prefix{}, groupLen: c.GroupTokens, rng: c.Rand, stats: newStats(),
		trouble: cmp.Or(c.Trouble, &Trouble{}),
	}
	switch c.Kind {
	case SGLang:
		e.sglang = newSGLangStats(now)
	case TRTLLM:
		e.trtllm = newTRTLLMStats()
	case Dynamo:
		e.handler, e.front = &handlerStats{duration: metrics.NewHistogram(handlerEdges)}, c.Front
	}
	return e
}

// Add puts a request at the end of the queue. Begin starts it.
func (e *Engine) Add(r *Request) { e.waiting = append(e.waiting, r) }

// Tick does what an engine does between two steps: it updates the gauges of an idle scheduler, and
// begins a step if there is work.
func (e *Engine) Tick(now float64) {
	e.sglang.idle(e, now)
	e.trtllm.look(e)
	e.Begin(now)
}

// Begin plans a step at now if there is work and no step runs.
func (e *Engine) Begin(now float64) {
	if e.stepping || e.Hung || len(e.waiting)+len(e.running) == 0 {
		return
	}
	e.planned = e.planned[:0]
	left, preempted := e.planRunning(e.Budget)
	if !preempted {
		e.admit(left, now)
	}
	if len(e.planned) == 0 {
		return
	}
	prefill, kvTokens := 0, 0
	for _, r := range e.planned {
		if r.step > 1 {
			prefill += r.step
			if r.Scored {
				e.scored = max(e.scored, r.step)
			}
		}
		kvTokens += r.computed
	}
	e.sglang.step(e, prefill, now)
	took := (e.Cost.Step(prefill, len(e.planned), kvTokens) + e.slowPrefill(prefill)) * e.Slow
	e.trtllm.step(e, prefill, took)
	e.stats.busy += took
	e.stats.tensor += e.Cost.PerPrefillToken * float64(prefill)
	e.stepping, e.stepEnd = true, now+(took+e.gap(len(e.planned)))*(0.97+0.06*e.rng.Float64())
}

// planRunning gives running requests their tokens, oldest first, and preempts the newest if blocks
// run out.
func (e *Engine) planRunning(budget int) (left int, preempted bool) {
	for i := 0; i < len(e.running) && budget > 0; i++ {
		r := e.running[i]
		n := min(r.pending(), budget)
		need := r.private(r.computed+n) - r.blocks
		for need > e.kv.free && len(e.running) > i {
			e.preempt()
			preempted = true
		}
		if len(e.running) <= i {
			break // r itself was preempted
		}
		if need > 0 {
			e.kv.take(need)
			r.blocks += need
		}
		e.plan(r, n)
		budget -= n
	}
	return budget, preempted
}

func (e *Engine) plan(r *Request, n int) {
	r.step, r.planned = n, true
	e.planned = append(e.planned, r)
}

// preempt frees the blocks of the newest running request and puts it at the head of the queue. It
// starts over, except for the blocks that are still cached when its turn comes.
func (e *Engine) preempt() {
	last := len(e.running) - 1
	r := e.running[last]
	e.running = e.running[:last]
	r.running, r.preempted = false, r.preempted+1
	e.stats.preemptions++
	full := min(r.blocks, max(0, r.computed/BlockSize-r.prefixBlocks()))
	e.kv.release(r.blocks-full, nil)
	if e.caching && full > 0 {
		r.seg = e.kv.release(full, func(left int) {
			if left == 0 {
				r.seg = nil
			}
		})
	} else {
		e.kv.release(full, nil)
	}
	r.blocks, r.computed = 0, 0
	if r.prefix != nil {
		r.prefix.drop(e.kv)
	}
	r.prefix = nil
	if e.sglang != nil {
		e.retract(r)
		return
	}
	e.waiting = append(e.waiting, nil)
	copy(e.waiting[1:], e.waiting)
	e.waiting[0] = r
}

// admit starts waiting requests in order while slots, tokens and blocks allow.
func (e *Engine) admit(budget int, now float64) {
	for len(e.waiting) > 0 && len(e.running) < e.MaxSeqs && budget > 0 {
		n := e.start(e.waiting[0], budget, now)
		if n == 0 {
			return
		}
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
		budget -= n
	}
}

// start admits a request and returns the tokens of its first chunk, or 0 if too few blocks are
// free.
func (e *Engine) start(r *Request, budget int, now float64) int {
	x := e.shared(r)
	take, hit := 0, 0
	if x != nil {
		take, hit = x.cost()
	}
	own := 0
	if r.seg != nil && (x == nil || hit == x.blocks) {
		own = r.seg.n
	}
	// The last token is always computed, because the next one follows from it.
	cached := min((hit+own)*BlockSize, r.Prompt+r.Generated-1)
	n := min(r.Prompt+r.Generated-cached, budget)
	r.prefix = x
	need := r.private(cached+n) - own
	if take+own+max(0, need) > e.kv.free {
		r.prefix = nil
		return 0
	}
	if r.seg != nil {
		if own > 0 {
			e.kv.reuse(r.seg)
			r.blocks = own
		} else {
			e.kv.forget(r.seg)
		}
		r.seg = nil
	}
	if x != nil {
		x.hold(e.kv)
	}
	if need > 0 {
		e.kv.take(need)
		r.blocks += need
	}
	r.computed, r.running = cached, true
	e.sglang.admitted(r, now, cached)
	if r.preempted == 0 {
		r.scheduled, r.cachedHit = now, cached
		if e.caching {
			e.stats.prefixQueries += float64(r.Prompt)
			e.stats.prefixHits += float64(cached)
		}
	}
	e.running = append(e.running, r)
	e.plan(r, n)
	return n
}

func (e *Engine) shared(r *Request) *prefix {
	length := cmp.Or(r.Shared, e.groupLen)
	if !e.caching || e.trouble.Uncached || r.Group < 0 || length < BlockSize || r.Prompt <= length {
		return nil
	}
	x := e.prefixes[r.Group]
	if x == nil {
		x = &prefix{blocks: length / BlockSize}
		e.prefixes[r.Group] = x
	}
	return x
}
