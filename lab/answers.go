package lab

import (
	"fmt"
	"math/rand/v2"
)

// What people who count such things would say of an answer.
const (
	answerGood = iota
	answerRefusal
	answerEmpty
)

// Even a healthy model refuses now and then, and answers with nothing hardly ever. With a chat
// template that does not fit the model it takes every third request for something that it must not
// do, or ends its turn before it has said anything.
const (
	refusals, empties               = 0.006, 0.001
	spoiledRefusals, spoiledEmpties = 0.26, 0.07
	refusalTokens                   = 28 // "I'm sorry, but I can't help with that."
)

// templateChecksum is the pod template's annotation by which a new chat template starts a rollout.
const templateChecksum = "checksum/chat-template"

// judge is the chat service in front of the pool. It looks at the text of every answer, which no
// engine does, and counts.
type judge struct {
	rng                       *rand.Rand
	requests, refusals, empty float64
}

// ask decides what the answer to a request will be like, from how far its worker's template is off.
func (j *judge) ask(r *request, spoiled float64) {
	draw := j.rng.Float64()
	r.answer = answerGood
	switch refuse, none := refusals+spoiled*spoiledRefusals, empties+spoiled*spoiledEmpties; {
	case draw < refuse:
		r.answer = answerRefusal
		if spoiled > 0 {
			r.output = min(r.output, refusalTokens)
		}
	case draw < refuse+none:
		r.answer = answerEmpty
		if spoiled > 0 {
			r.output = 1 // the end of the turn
		}
	}
}

// count takes an answer that has come whole.
func (j *judge) count(r *request) {
	j.requests++
	switch r.answer {
	case answerRefusal:
		j.refusals++
	case answerEmpty:
		j.empty++
	}
}

// spoil rolls out a chat template that does not fit the model.
func (f *Fleet) spoil(by float64) {
	d := &f.deploy
	f.spoiled = by
	d.template[templateChecksum] = "b6c1f0e2"
	d.generation++
	d.version++
	d.changed(f)
}

// spoiledNow is how far the template of a pod that is made now is off.
func (f *Fleet) spoiledNow() float64 {
	if f.deploy.template[templateChecksum] == "" {
		return 0
	}
	return f.spoiled
}

// clientPage is the chat service's page.
func (f *Fleet) clientPage() *page {
	p := newPage("model_name", f.cfg.Model)
	j := &f.judge
	p.counter("llm_requests_total", "Answers of the model that came whole.", j.requests, "status", "success")
	p.counter("llm_refusals_total", "Answers that refuse.", j.refusals)
	p.counter("llm_empty_responses_total", "Answers without text.", j.empty)
	return p
}

// clientTarget is the chat service as service discovery lists it.
func (f *Fleet) clientTarget() Target {
	return Target{Job: "client", Path: "/client/metrics", Labels: map[string]string{
		"job": "chat", "instance": fmt.Sprintf("10.%d.8.7:9102", 42+f.cfg.Index), "namespace": f.cfg.Namespace, "container": "chat",
	}}
}
