package engine

// The reasons for which requests end, as in vllm:request_success_total.
const (
	finishedStop   = "stop"
	finishedLength = "length"
	finishedAbort  = "abort"
	finishedError  = "error"
)

// Finish ends the step that runs, at the time of [Engine.StepEnd]: it emits tokens and removes
// complete requests. It calls done with each of them.
func (e *Engine) Finish(now float64, done func(*Request)) {
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
		if r.Generated >= r.Output {
			ended = true
		}
	}
	e.stats.iteration.Observe(float64(tokens))
	if !ended {
		return
	}
	kept := e.running[:0]
	for _, r := range e.running {
		if r.Generated < r.Output || r.pending() != 1 {
			kept = append(kept, r)
			continue
		}
		reason := finishedStop
		if r.Generated >= r.MaxTokens {
			reason = finishedLength
		}
		e.keep(r)
		e.release(r)
		e.stats.complete(r, now, reason)
		e.sglang.ended(r, now)
		e.trtllm.complete(r)
		e.handler.ended(r, now)
		if e.front != nil {
			e.front.Ended(r, now, true)
		}
		e.stats.http["2xx"]++
		done(r)
	}
	clear(e.running[len(kept):])
	e.running = kept
}

func (e *Engine) token(r *Request, now float64) {
	r.Generated++
	e.stats.generationTokens++
	if e.sglang != nil {
		e.sglang.token(r, now)
	}
	if e.front != nil {
		e.front.Token(r, now)
	}
	if r.FirstToken == 0 {
		r.FirstToken = now
		e.stats.promptTokens += float64(r.Prompt)
		e.stats.ttft.Observe(now - r.Arrived)
	} else {
		e.stats.itl.Observe(now - r.LastToken)
	}
	r.LastToken = now
}

// release frees a request's blocks.
func (e *Engine) release(r *Request) {
	e.kv.release(r.blocks, nil)
	if r.seg != nil {
		e.kv.forget(r.seg)
	}
	if r.prefix != nil {
		r.prefix.drop(e.kv)
	}
	r.blocks, r.seg, r.prefix, r.running, r.planned = 0, nil, nil, false, false
}

// Cancel removes the requests whose clients have hung up, and calls done with each of them. A leaky
// engine keeps their blocks. A hung engine does not process cancellations, and its requests stay
// "running".
func (e *Engine) Cancel(now float64, done func(*Request)) {
	if e.Hung {
		return
	}
	drop := func(list []*Request) []*Request {
		kept := list[:0]
		for _, r := range list {
			if !r.gone(now) {
				kept = append(kept, r)
				continue
			}
			if (e.Leaky || e.trouble.KeepsLong && r.Long) && r.blocks > 0 {
				e.kv.leaked += r.blocks
				r.blocks = 0
			}
			e.sglang.abort(r, now)
			e.trtllm.ended(r)
			e.handler.ended(r, now)
			if e.front != nil {
				e.front.Ended(r, now, false)
			}
			e.release(r)
			e.stats.finished[finishedAbort]++
			e.stats.http["4xx"]++ // 499: the client closed the connection
			done(r)
		}
		clear(list[len(kept):])
		return kept
	}
	e.running = drop(e.running)
	e.waiting = drop(e.waiting)
}

// Fail counts a request that is answered with an error, because its process ends.
func (e *Engine) Fail() {
	e.stats.http["5xx"]++
	e.handler.fail()
}

// Reject counts a request that the engine answers with an error at once.
func (e *Engine) Reject() {
	e.Fail()
	e.stats.finished[finishedError]++
}

// Abandon drops all requests, running ones first, and calls each with every one before that.
func (e *Engine) Abandon(each func(*Request)) {
	for _, list := range [][]*Request{e.running, e.waiting} {
		for _, r := range list {
			each(r)
		}
	}
	e.running, e.waiting, e.stepping = nil, nil, false
}
