package lab

// The reasons for which requests end, as in vllm:request_success_total.
const (
	finishedStop   = "stop"
	finishedLength = "length"
	finishedAbort  = "abort"
	finishedError  = "error"
)

// finish ends the running step: it emits tokens and removes complete requests.
func (e *engine) finish(now float64, done func(r *request, reason string)) {
	e.stepping = false
	tokens, ended := 0, false
	for _, r := range e.planned {
		if !r.planned {
			continue // cancelled while the step ran
		}
		r.planned = false
		tokens += r.step
		r.computed += r.step
		if r.pending() > 0 {
			continue
		}
		e.token(r, now)
		if r.generated >= r.output {
			ended = true
		}
	}
	e.stats.iteration.observe(float64(tokens))
	if !ended {
		return
	}
	kept := e.running[:0]
	for _, r := range e.running {
		if r.generated < r.output || r.pending() != 1 {
			kept = append(kept, r)
			continue
		}
		reason := finishedStop
		if r.generated >= r.maxTokens {
			reason = finishedLength
		}
		e.keep(r)
		e.release(r)
		e.stats.complete(r, now, reason)
		e.sglang.ended(r, now)
		e.trtllm.complete(r)
		e.handler.ended(r, now)
		e.front.ended(r, now, true)
		done(r, reason)
	}
	clear(e.running[len(kept):])
	e.running = kept
}

func (e *engine) token(r *request, now float64) {
	r.generated++
	e.stats.generationTokens++
	if e.sglang != nil {
		e.sglang.token(r, now)
	}
	if e.front != nil {
		e.front.token(r, now)
	}
	if r.firstToken == 0 {
		r.firstToken = now
		e.stats.promptTokens += float64(r.prompt)
		e.stats.ttft.observe(now - r.arrived)
	} else {
		e.stats.itl.observe(now - r.lastToken)
	}
	r.lastToken = now
}

// release frees a request's blocks.
func (e *engine) release(r *request) {
	e.kv.release(r.blocks, nil)
	if r.seg != nil {
		e.kv.forget(r.seg)
	}
	if r.prefix != nil {
		r.prefix.drop(e.kv)
	}
	r.blocks, r.seg, r.prefix, r.running, r.planned = 0, nil, nil, false, false
}

// cancel removes the requests that gone selects, because their clients hung up. A leaky engine
// keeps their blocks. A hung engine does not process cancellations, and its requests stay
// "running".
func (e *engine) cancel(now float64, gone func(*request) bool, done func(*request)) {
	if e.hung {
		return
	}
	drop := func(list []*request) []*request {
		kept := list[:0]
		for _, r := range list {
			if !gone(r) {
				kept = append(kept, r)
				continue
			}
			if (e.leaky || e.trouble.KeepsLong && r.long) && r.blocks > 0 {
				e.kv.leaked += r.blocks
				r.blocks = 0
			}
			e.sglang.abort(r, now)
			e.trtllm.ended(r)
			e.handler.ended(r, now)
			e.front.ended(r, now, false)
			e.release(r)
			e.stats.finished[finishedAbort]++
			done(r)
		}
		clear(list[len(kept):])
		return kept
	}
	e.running = drop(e.running)
	e.waiting = drop(e.waiting)
}

// stats holds an engine's counters since its process started.
type stats struct {
	promptTokens, generationTokens float64
	prefixQueries, prefixHits      float64
	preemptions                    float64
	finished                       map[string]float64
	http                           map[string]float64 // by status class
	busy, tensor                   float64            // seconds of steps, and of the arithmetic in them

	ttft, itl, tpot                           *histogram
	e2e, queue, inference, prefill, decode    *histogram
	promptLen, outputLen, iteration           *histogram
	maxTokens, paramN, computedTokens, params *histogram
}

func newStats() stats {
	h := newHistogram
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
func (s *stats) complete(r *request, now float64, reason string) {
	s.finished[reason]++
	s.e2e.observe(now - r.arrived)
	s.queue.observe(r.scheduled - r.arrived)
	s.inference.observe(now - r.scheduled)
	s.prefill.observe(r.firstToken - r.scheduled)
	s.decode.observe(r.lastToken - r.firstToken)
	if r.generated > 1 {
		s.tpot.observe((r.lastToken - r.firstToken) / float64(r.generated-1))
	} else {
		s.tpot.observe(0)
	}
	s.promptLen.observe(float64(r.prompt))
	s.outputLen.observe(float64(r.generated))
	s.maxTokens.observe(float64(r.output))
	s.params.observe(float64(r.maxTokens))
	s.paramN.observe(1)
	s.computedTokens.observe(float64(r.prompt - r.cachedHit))
}
