package lab

import (
	"cmp"
	"math/rand/v2"
)

// engine is one worker's scheduler and cache. It follows vLLM V1's rules and replaces the model by
// its cost.
type engine struct {
	cost     Cost
	maxSeqs  int
	budget   int // max_num_batched_tokens
	caching  bool
	kv       *blockPool
	prefixes map[int]*prefix
	groupLen int // tokens shared in a group
	rng      *rand.Rand

	waiting []*request // head first
	running []*request // oldest admission first
	planned []*request

	stepping bool
	stepEnd  float64
	slow     float64 // multiplies the time of a step
	host     float64 // severity of the host's CPU shortage; 0: none
	hung     bool
	leaky    bool // blocks of cancelled requests are never freed
	trouble  *Trouble
	ended    int // requests that the trouble counted

	scored int // most prompt tokens with prompt_logprobs in one step since the last tick

	stats   stats
	sglang  *sglangStats  // of an SGLang worker
	trtllm  *trtllmStats  // of a TensorRT-LLM worker
	handler *handlerStats // of a Dynamo worker
	front   *frontStats   // of the frontend that the tokens pass
}

func newEngine(e Engine, c Cost, groupLen int, rng *rand.Rand) *engine {
	return &engine{
		cost: c, maxSeqs: e.MaxNumSeqs, budget: e.MaxNumBatchedTokens, caching: !e.NoPrefixCaching,
		kv: newBlockPool(e.blocks(c)), prefixes: map[int]*prefix{}, groupLen: groupLen, rng: rng, slow: 1, stats: newStats(),
		trouble: &Trouble{},
	}
}

func (e *engine) add(r *request) { e.waiting = append(e.waiting, r) }

// begin plans a step at now if there is work and no step runs.
func (e *engine) begin(now float64) {
	if e.stepping || e.hung || len(e.waiting)+len(e.running) == 0 {
		return
	}
	e.planned = e.planned[:0]
	left, preempted := e.planRunning(e.budget)
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
			if r.scored {
				e.scored = max(e.scored, r.step)
			}
		}
		kvTokens += r.computed
	}
	e.sglang.step(e, prefill, now)
	took := (e.cost.Step(prefill, len(e.planned), kvTokens) + e.slowPrefill(prefill)) * e.slow
	e.trtllm.step(e, prefill, took)
	e.stats.busy += took
	e.stats.tensor += e.cost.PerPrefillToken * float64(prefill)
	e.stepping, e.stepEnd = true, now+(took+e.gap(len(e.planned)))*(0.97+0.06*e.rng.Float64())
}

// planRunning gives running requests their tokens, oldest first, and preempts the newest if blocks
// run out.
func (e *engine) planRunning(budget int) (left int, preempted bool) {
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

func (e *engine) plan(r *request, n int) {
	r.step, r.planned = n, true
	e.planned = append(e.planned, r)
}

// preempt frees the blocks of the newest running request and puts it at the head of the queue. It
// starts over, except for the blocks that are still cached when its turn comes.
func (e *engine) preempt() {
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

func (r *request) prefixBlocks() int {
	if r.prefix == nil {
		return 0
	}
	return r.prefix.blocks
}

// admit starts waiting requests in order while slots, tokens and blocks allow.
func (e *engine) admit(budget int, now float64) {
	for len(e.waiting) > 0 && len(e.running) < e.maxSeqs && budget > 0 {
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
func (e *engine) start(r *request, budget int, now float64) int {
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
	cached := min((hit+own)*BlockSize, r.prompt+r.generated-1)
	n := min(r.prompt+r.generated-cached, budget)
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
			e.stats.prefixQueries += float64(r.prompt)
			e.stats.prefixHits += float64(cached)
		}
	}
	e.running = append(e.running, r)
	e.plan(r, n)
	return n
}

func (e *engine) shared(r *request) *prefix {
	length := cmp.Or(r.shared, e.groupLen)
	if !e.caching || e.trouble.Uncached || r.group < 0 || length < BlockSize || r.prompt <= length {
		return nil
	}
	x := e.prefixes[r.group]
	if x == nil {
		x = &prefix{blocks: length / BlockSize}
		e.prefixes[r.group] = x
	}
	return x
}
