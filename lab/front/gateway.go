package front

import (
	"maps"
	"math/rand/v2"
	"slices"

	"paramedic/lab/engine"
	"paramedic/lab/metrics"
)

// A Gateway is the endpoint picker in front of the pool. Every request passes it. It counts the
// requests for which it found a worker apart from the others. It counts workers' errors too, as
// llm-d's picker does if the proxy sends the status in the header "status"; Envoy sends ":status".
type Gateway struct {
	Trouble
	Pod      string
	Blind    bool      // its watch of the pool is broken, so that it sees no endpoint
	Frontend *Frontend // Dynamo's, which replaces the picker; nil: of another kind

	requests float64            // sent to a worker
	errors   map[string]float64 // by llm-d's error codes
}

// A Trouble holds what a story makes wrong with the gateway. The zero value is a healthy one.
type Trouble struct {
	Drops    float64 // share of the requests that it fails before a worker sees them
	DropCode string  // its error for them
	Unseen   bool    // its /metrics fail
	Pinned   string  // the pod that gets the requests of the first group, at any load
}

// The error codes of llm-d's endpoint picker.
const (
	NoEndpoint = "ServiceUnavailable"             // no worker is available
	Upstream   = "ModelServerError"               // the worker failed the request, or its connection did
	Internal   = "Internal"                       // the picker failed
	Shed       = "InferencePoolResourceExhausted" // answered with 429
)

// NewGateway returns the gateway of a pool of a kind, which has counted nothing.
func NewGateway(k engine.Kind, pool string) Gateway {
	if k == engine.Dynamo {
		return Gateway{Pod: pool + "-frontend-6d5f7b9c4d-x8k2q", errors: map[string]float64{}, Frontend: newFrontend()}
	}
	return Gateway{Pod: pool + "-epp-6d5f7b9c4d-x8k2q", errors: map[string]float64{}}
}

// Send counts a request that the gateway sends to a worker.
func (g *Gateway) Send() { g.requests++ }

// TurnAway counts a request that the gateway or a worker fails, by one of the error codes.
func (g *Gateway) TurnAway(code string) {
	g.errors[code]++
	g.Frontend.fail()
}

// Drop decides whether the gateway fails a request before a worker sees it. If so, it counts the
// request.
func (g *Gateway) Drop(rng *rand.Rand) bool {
	if g.Drops == 0 || rng.Float64() >= g.Drops {
		return false
	}
	if g.DropCode == Upstream { // it was sent
		g.requests++
	}
	g.TurnAway(g.DropCode)
	return true
}

// Fill adds the endpoint picker's samples, with llm-d's names and the deprecated ones that it still
// exports. The engines are those of the ready endpoints.
func (g *Gateway) Fill(p *metrics.Page, pool, model string, ready []*engine.Engine) {
	served := []string{"model_name", model, "target_model_name", model}
	with := func(more ...string) []string { return append(append([]string{}, served...), more...) }
	p.Counter("llm_d_epp_request_total", "Counter of requests broken out for each model and target model.", g.requests,
		with("fairness_id", "default-flow", "priority", "0")...)
	p.Counter("inference_objective_request_total", "[Deprecated: Use llm_d_epp_request_total] Counter of requests "+
		"broken out for each model and target model.", g.requests, with("priority", "0")...)
	for _, code := range slices.Sorted(maps.Keys(g.errors)) {
		p.Counter("llm_d_epp_request_error_total", "Counter of errors in requests broken out for each model and "+
			"target model.", g.errors[code],
			with("fairness_id", "default-flow", "priority", "0", "error_code", code)...)
		p.Counter("inference_objective_request_error_total",
			"[Deprecated: Use llm_d_epp_request_error_total] Counter of errors in requests broken out for each "+
				"model and target model.", g.errors[code], with("error_code", code)...)
	}
	running, waiting, kv := 0, 0, 0.0
	for _, e := range ready {
		running, waiting, kv = running+e.Running(), waiting+e.Waiting(), kv+e.KVUsage()
	}
	n := max(1, float64(len(ready)))
	of := []string{"name", pool}
	p.Gauge("llm_d_epp_request_running", "Inference pool running requests for each model.", float64(running),
		with("fairness_id", "default-flow", "priority", "0")...)
	p.Gauge("llm_d_epp_average_kv_cache_utilization", "The average kv cache utilization for an inference server pool.",
		kv/n, of...)
	p.Gauge("llm_d_epp_average_queue_size", "The average number of requests pending in the model server queue.",
		float64(waiting)/n, of...)
	p.Gauge("llm_d_epp_average_running_requests", "The average number of running requests across model servers in "+
		"the pool.", float64(running)/n, of...)
	p.Gauge("llm_d_epp_ready_endpoints", "The number of ready endpoints in the inference server pool.",
		float64(len(ready)), of...)
	p.Gauge("inference_pool_ready_pods", "[Deprecated: Use llm_d_epp_ready_endpoints] The number of ready pods in "+
		"the inference server pool.", float64(len(ready)), of...)
}
