package engine

import "paramedic/lab/metrics"

// handlerStats holds the counters of Dynamo's runtime in a worker. A nil *handlerStats counts
// nothing.
type handlerStats struct {
	requests, failed, in, out float64
	duration                  *metrics.Histogram
}

// ended counts a request that the handler has finished. The bytes per token are those of the
// recorded page.
func (s *handlerStats) ended(r *Request, now float64) {
	if s == nil {
		return
	}
	s.requests++
	s.in += 38 * float64(r.Prompt)
	s.out += 61 * float64(r.Generated)
	s.duration.Observe(now - r.Arrived)
}

// fail counts a request that the handler refuses with an error.
func (s *handlerStats) fail() {
	if s != nil {
		s.requests++
		s.failed++
	}
}

// runtimeSeries adds the runtime's series to a worker's page.
func (e *Engine) runtimeSeries(p *metrics.Page, of Process) {
	s := e.handler
	at := []string{"dynamo_component", "backend", "dynamo_namespace", "dynamo"}
	work := append([]string{"dynamo_endpoint", "generate", "model", of.Model}, at...)
	p.Gauge("dynamo_component_inflight_requests", "Number of requests currently being processed by work handler",
		float64(e.Load()), work...)
	p.Gauge("dynamo_component_kvstats_active_blocks", "Number of active KV cache blocks currently in use",
		float64(e.kv.total-e.kv.free), at...)
	p.Gauge("dynamo_component_kvstats_gpu_cache_usage_percent", "GPU cache usage as a percentage (0.0-1.0)",
		e.kv.usage(), at...)
	p.Gauge("dynamo_component_kvstats_gpu_prefix_cache_hit_rate", "GPU prefix cache hit rate as a percentage (0.0-1.0)",
		e.stats.prefixHits/max(1, e.stats.prefixQueries), at...)
	p.Gauge("dynamo_component_kvstats_total_blocks", "Total number of KV cache blocks available", float64(e.kv.total),
		at...)
	p.Counter("dynamo_component_request_bytes_total", "Total number of bytes received in requests by work handler",
		s.in, work...)
	p.Histogram("dynamo_component_request_duration_seconds", "Time spent processing requests by work handler",
		s.duration, work...)
	p.Counter("dynamo_component_requests_total", "Total number of requests processed by work handler", s.requests,
		work...)
	p.Counter("dynamo_component_response_bytes_total", "Total number of bytes sent in responses by work handler", s.out,
		work...)
	if s.failed > 0 { // a counter with labels is absent before its first increment
		p.Counter("dynamo_component_errors_total", "Total number of errors in work handler processing", s.failed,
			append([]string{"error_type", "generate"}, work...)...)
	}
	p.Gauge("dynamo_component_uptime_seconds", "Total uptime of the DistributedRuntime in seconds", of.Uptime)
}

// handlerEdges are the bucket edges of the handler.
var handlerEdges = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
