package lab

import (
	"fmt"
	"maps"
	"slices"
)

// gateway is the endpoint picker in front of the pool. Every request passes it. It counts requests
// for which it found a worker apart from the others. It counts workers' errors too, as llm-d's
// picker does if the proxy sends the status in the header "status"; Envoy sends ":status".
type gateway struct {
	GatewayTrouble
	pod      string
	blind    bool               // its watch of the pool is broken, so that it sees no endpoint
	requests float64            // sent to a worker
	errors   map[string]float64 // by llm-d's error codes
	front    *frontStats        // of Dynamo's frontend, which replaces the picker
}

// The error codes of llm-d's endpoint picker.
const (
	GatewayNoEndpoint = "ServiceUnavailable" // no worker is available
	GatewayUpstream   = "ModelServerError"   // the worker failed the request, or its connection did
)

func newGateway(c Config) gateway {
	if c.Kind == Dynamo {
		return gateway{pod: c.Pool + "-frontend-6d5f7b9c4d-x8k2q", errors: map[string]float64{}, front: newFrontStats()}
	}
	return gateway{pod: c.Pool + "-epp-6d5f7b9c4d-x8k2q", errors: map[string]float64{}}
}

// turnAway counts a request that the gateway or a worker fails.
func (g *gateway) turnAway(code string) {
	g.errors[code]++
	g.front.fail()
}

// endpoints returns the workers to which the gateway can send a request.
func (f *Fleet) endpoints() []*worker {
	f.ready = f.ready[:0]
	if f.gateway.blind {
		return f.ready
	}
	for _, w := range f.workers {
		if w.serves() {
			f.ready = append(f.ready, w)
		}
	}
	return f.ready
}

// gatewayPage returns the endpoint picker's page, with llm-d's names and the deprecated ones that
// it still exports.
func (f *Fleet) gatewayPage() *page {
	p := f.newPage()
	g := &f.gateway
	model := []string{"model_name", f.cfg.Model, "target_model_name", f.cfg.Model}
	with := func(more ...string) []string { return append(append([]string{}, model...), more...) }
	p.counter("llm_d_epp_request_total", "Counter of requests broken out for each model and target model.", g.requests,
		with("fairness_id", "default-flow", "priority", "0")...)
	p.counter("inference_objective_request_total", "[Deprecated: Use llm_d_epp_request_total] Counter of requests "+
		"broken out for each model and target model.", g.requests, with("priority", "0")...)
	for _, code := range slices.Sorted(maps.Keys(g.errors)) {
		p.counter("llm_d_epp_request_error_total", "Counter of errors in requests broken out for each model and "+
			"target model.", g.errors[code],
			with("fairness_id", "default-flow", "priority", "0", "error_code", code)...)
		p.counter("inference_objective_request_error_total",
			"[Deprecated: Use llm_d_epp_request_error_total] Counter of errors in requests broken out for each "+
				"model and target model.", g.errors[code], with("error_code", code)...)
	}
	ready := f.endpoints()
	running, waiting, kv := 0, 0, 0.0
	for _, w := range ready {
		running, waiting, kv = running+len(w.eng.running), waiting+len(w.eng.waiting), kv+w.eng.kv.usage()
	}
	n := max(1, float64(len(ready)))
	pool := []string{"name", f.cfg.Pool}
	p.gauge("llm_d_epp_request_running", "Inference pool running requests for each model.", float64(running),
		with("fairness_id", "default-flow", "priority", "0")...)
	p.gauge("llm_d_epp_average_kv_cache_utilization", "The average kv cache utilization for an inference server pool.",
		kv/n, pool...)
	p.gauge("llm_d_epp_average_queue_size", "The average number of requests pending in the model server queue.",
		float64(waiting)/n, pool...)
	p.gauge("llm_d_epp_average_running_requests", "The average number of running requests across model servers in "+
		"the pool.", float64(running)/n, pool...)
	p.gauge("llm_d_epp_ready_endpoints", "The number of ready endpoints in the inference server pool.",
		float64(len(ready)), pool...)
	p.gauge("inference_pool_ready_pods", "[Deprecated: Use llm_d_epp_ready_endpoints] The number of ready pods in "+
		"the inference server pool.", float64(len(ready)), pool...)
	return p
}

// gatewayTarget returns the picker as service discovery lists it.
func (f *Fleet) gatewayTarget() Target {
	if f.cfg.Kind == Dynamo {
		return f.frontendTarget()
	}
	return Target{Job: "epp", Path: "/gateway/metrics", Labels: map[string]string{
		"job": "epp", "instance": fmt.Sprintf("10.42.9.%d:9090", 10+len(f.cfg.Pool)), "namespace": f.cfg.Namespace, "pod": f.gateway.pod,
		"container": "epp",
	}}
}
