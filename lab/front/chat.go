package front

import (
	"math/rand/v2"

	"paramedic/lab/engine"
	"paramedic/lab/metrics"
)

// The kinds of answers that a quality check counts, in [engine.Request.Answer].
const (
	good = iota
	refusal
	empty
)

// The shares of answers of a healthy model that refuse or are empty.
const (
	refusals, empties = 0.006, 0.001
	refusalTokens     = 28 // "I'm sorry, but I can't help with that."
)

// A Chat is the chat service in front of the pool. It draws what each answer is like, and counts
// the answers. No engine looks at the text.
type Chat struct {
	Rand *rand.Rand

	requests, refusals, empty float64
}

// Sample draws the kind of a request's answer. The shares of refusing answers and of those without
// text are those that its worker adds: 0 is healthy.
func (s *Chat) Sample(r *engine.Request, refusing, without float64) {
	draw := s.Rand.Float64()
	r.Answer = good
	switch refuse, none := refusals+refusing, empties+without; {
	case draw < refuse:
		r.Answer = refusal
		if refusing > 0 {
			r.Output = min(r.Output, refusalTokens)
		}
	case draw < refuse+none:
		r.Answer = empty
		if without > 0 {
			r.Output = 1 // the end of the turn
		}
	}
}

// Count counts an answer that is complete.
func (s *Chat) Count(r *engine.Request) {
	s.requests++
	switch r.Answer {
	case refusal:
		s.refusals++
	case empty:
		s.empty++
	}
}

// Fill adds the chat service's samples.
func (s *Chat) Fill(p *metrics.Page, model string) {
	p.Common("model_name", model)
	p.Counter("llm_requests_total", "Answers of the model that came whole.", s.requests, "status", "success")
	p.Counter("llm_refusals_total", "Answers that refuse.", s.refusals)
	p.Counter("llm_empty_responses_total", "Answers without text.", s.empty)
}
