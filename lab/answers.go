package lab

import (
	"fmt"
	"math/rand/v2"
)

// The kinds of answers that a quality check counts.
const (
	answerGood = iota
	answerRefusal
	answerEmpty
)

// The shares of answers that refuse or are empty: of a healthy model, and what a chat template that
// does not fit the model adds at severity 1.
const (
	refusals, empties               = 0.006, 0.001
	spoiledRefusals, spoiledEmpties = 0.26, 0.07
	refusalTokens                   = 28 // "I'm sorry, but I can't help with that."
)

// templateChecksum is the pod template's annotation by which a new chat template starts a rollout.
const templateChecksum = "checksum/chat-template"

// An answerSampler draws what each answer is like, and counts the answers as the chat service in
// front of the pool does. No engine looks at the text.
type answerSampler struct {
	rng                       *rand.Rand
	requests, refusals, empty float64
}

// sample draws the kind of a request's answer. The shares are those that its worker adds: 0 is
// healthy.
func (s *answerSampler) sample(r *request, refusing, without float64) {
	draw := s.rng.Float64()
	r.answer = answerGood
	switch refuse, none := refusals+refusing, empties+without; {
	case draw < refuse:
		r.answer = answerRefusal
		if refusing > 0 {
			r.output = min(r.output, refusalTokens)
		}
	case draw < refuse+none:
		r.answer = answerEmpty
		if without > 0 {
			r.output = 1 // the end of the turn
		}
	}
}

// count counts an answer that is complete.
func (s *answerSampler) count(r *request) {
	s.requests++
	switch r.answer {
	case answerRefusal:
		s.refusals++
	case answerEmpty:
		s.empty++
	}
}

// breakTemplate rolls out a chat template that does not fit the model.
func (f *Fleet) breakTemplate(by float64) {
	d := &f.deploy
	f.spoiled = by
	d.template[templateChecksum] = "b6c1f0e2"
	d.generation++
	d.version++
	d.changed(f)
}

// spoiledNow returns how badly the template of a pod that is created now fits the model.
func (f *Fleet) spoiledNow() float64 {
	if f.deploy.template[templateChecksum] == "" {
		return 0
	}
	return f.spoiled
}

// clientPage returns the chat service's page.
func (f *Fleet) clientPage() *page {
	p := f.newPage("model_name", f.cfg.Model)
	s := &f.answers
	p.counter("llm_requests_total", "Answers of the model that came whole.", s.requests, "status", "success")
	p.counter("llm_refusals_total", "Answers that refuse.", s.refusals)
	p.counter("llm_empty_responses_total", "Answers without text.", s.empty)
	return p
}

// clientTarget returns the chat service as service discovery lists it.
func (f *Fleet) clientTarget() Target {
	return Target{Job: "client", Path: "/client/metrics", Labels: map[string]string{
		"job": "chat", "instance": fmt.Sprintf("10.%d.8.7:9102", 42+f.cfg.Index), "namespace": f.cfg.Namespace, "container": "chat",
	}}
}
