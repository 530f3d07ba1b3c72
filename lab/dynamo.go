package lab

import (
	"fmt"
	"strings"
)

// frontStats counts the requests that pass Dynamo's frontend. A nil *frontStats stands for another
// gateway and counts nothing.
type frontStats struct {
	answered, failed, left               float64 // left: cancelled, which this frontend counts as an error
	tokens                               float64
	ttft, itl, duration, prompts, output *histogram
}

func newFrontStats() *frontStats {
	h := newHistogram
	return &frontStats{ttft: h(frontTTFTEdges), itl: h(frontITLEdges), duration: h(frontDurationEdges),
		prompts: h(frontPromptEdges), output: h(frontOutputEdges)}
}

// token observes a token on its way to the client.
func (s *frontStats) token(r *request, now float64) {
	s.tokens++
	if r.firstToken == 0 {
		s.ttft.observe(now - r.arrived)
		s.prompts.observe(float64(r.prompt))
		return
	}
	s.itl.observe(now - r.lastToken)
}

// ended observes an answer that is complete or cancelled.
func (s *frontStats) ended(r *request, now float64, whole bool) {
	switch {
	case s == nil:
		return
	case whole:
		s.answered++
	default:
		s.left++
	}
	s.duration.observe(now - r.arrived)
	s.output.observe(float64(r.generated))
}

// fail counts a request that the frontend or its worker fails.
func (s *frontStats) fail() {
	if s != nil {
		s.failed++
	}
}

// The bucket edges of Dynamo's frontend and of its workers' handler.
var (
	frontTTFTEdges = []float64{0, .0022, .0047, .01, .022, .047, .1, .22, .47, 1, 2.2, 4.7, 10, 22, 48, 100, 220,
		480}
	frontITLEdges      = []float64{0, .0019, .0035, .0067, .013, .024, .045, .084, .16, .3, .56, 1.1, 2}
	frontDurationEdges = []float64{0, 1.9, 3.4, 6.3, 12, 22, 40, 75, 140, 260}
	frontPromptEdges   = []float64{0, 100, 210, 430, 870, 1800, 3600, 7400, 15000, 31000, 63000, 130000}
	frontOutputEdges   = []float64{0, 100, 210, 430, 880, 1800, 3700, 7600, 16000, 32000}
	handlerEdges       = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// frontendPage returns the page of Dynamo's frontend. Series of requests have the model's name in
// lower case; series of its settings have it as configured.
func (f *Fleet) frontendPage() *page {
	p := f.newPage()
	s := f.gateway.front
	model := []string{"model", strings.ToLower(f.cfg.Model)}
	inflight, queued := 0, 0
	for _, w := range f.workers {
		if w.eng == nil {
			continue
		}
		inflight += w.load()
		for _, list := range [][]*request{w.eng.running, w.eng.waiting} {
			for _, r := range list {
				queued += boolInt(r.firstToken == 0)
			}
		}
	}
	p.gauge("dynamo_frontend_disconnected_clients", "Number of disconnected clients", s.left)
	p.gauge("dynamo_frontend_inflight_requests", "Number of inflight requests", float64(inflight), model...)
	p.histogram("dynamo_frontend_input_sequence_tokens", "Input sequence length in tokens", s.prompts, model...)
	p.histogram("dynamo_frontend_inter_token_latency_seconds", "Inter-token latency in seconds", s.itl, model...)
	p.histogram("dynamo_frontend_output_sequence_tokens", "Output sequence length in tokens", s.output, model...)
	p.counter("dynamo_frontend_output_tokens_total", "Total number of output tokens generated (updates in real-time)",
		s.tokens, model...)
	p.gauge("dynamo_frontend_queued_requests", "Number of requests in HTTP processing queue", float64(queued), model...)
	p.histogram("dynamo_frontend_request_duration_seconds", "Duration of LLM requests", s.duration, model...)
	for _, r := range []struct {
		status string
		n      float64
	}{{"success", s.answered}, {"error", s.failed + s.left}} {
		if r.n > 0 {
			p.counter("dynamo_frontend_requests_total", "Total number of LLM requests processed", r.n,
				append([]string{"endpoint", "chat_completions", "request_type", "stream", "status", r.status},
					model...)...)
		}
	}
	p.histogram("dynamo_frontend_time_to_first_token_seconds", "Time to first token in seconds", s.ttft, model...)
	f.frontendModel(p)
	return p
}

// frontendModel adds the settings with which the workers registered, if any serves.
func (f *Fleet) frontendModel(p *page) {
	for _, w := range f.workers {
		if !w.serves() {
			continue
		}
		e := f.engineOf(w.args)
		g := func(name, help string, v int) {
			p.gauge("dynamo_frontend_model_"+name, help, float64(v), "model", f.cfg.Model)
		}
		g("context_length", "Maximum context length in tokens for a worker serving the model", e.MaxModelLen)
		g("kv_cache_block_size", "KV cache block size in tokens for a worker serving the model", BlockSize)
		g("max_num_batched_tokens", "Maximum number of batched tokens for a worker serving the model",
			e.MaxNumBatchedTokens)
		g("max_num_seqs", "Maximum number of sequences for a worker serving the model", e.MaxNumSeqs)
		g("migration_limit", "Maximum number of request migrations allowed for the model", 0)
		g("total_kv_blocks", "Total KV cache blocks available for a worker serving the model", w.eng.kv.total)
		return
	}
}

// handlerStats holds the counters of Dynamo's runtime in a worker. A nil *handlerStats counts
// nothing.
type handlerStats struct {
	requests, failed, in, out float64
	duration                  *histogram
}

// ended counts a request that the handler has finished. The bytes per token are those of the
// recorded page.
func (s *handlerStats) ended(r *request, now float64) {
	if s == nil {
		return
	}
	s.requests++
	s.in += 38 * float64(r.prompt)
	s.out += 61 * float64(r.generated)
	s.duration.observe(now - r.arrived)
}

// fail counts a request that the handler refuses with an error.
func (s *handlerStats) fail() {
	if s != nil {
		s.requests++
		s.failed++
	}
}

// handler adds the runtime's series to a worker's page.
func (f *Fleet) handler(p *page, w *worker) {
	e, s := w.eng, w.eng.handler
	at := []string{"dynamo_component", "backend", "dynamo_namespace", "dynamo"}
	work := append([]string{"dynamo_endpoint", "generate", "model", f.cfg.Model}, at...)
	p.gauge("dynamo_component_inflight_requests", "Number of requests currently being processed by work handler",
		float64(w.load()), work...)
	p.gauge("dynamo_component_kvstats_active_blocks", "Number of active KV cache blocks currently in use",
		float64(e.kv.total-e.kv.free), at...)
	p.gauge("dynamo_component_kvstats_gpu_cache_usage_percent", "GPU cache usage as a percentage (0.0-1.0)",
		e.kv.usage(), at...)
	p.gauge("dynamo_component_kvstats_gpu_prefix_cache_hit_rate", "GPU prefix cache hit rate as a percentage (0.0-1.0)",
		e.stats.prefixHits/max(1, e.stats.prefixQueries), at...)
	p.gauge("dynamo_component_kvstats_total_blocks", "Total number of KV cache blocks available", float64(e.kv.total),
		at...)
	p.counter("dynamo_component_request_bytes_total", "Total number of bytes received in requests by work handler",
		s.in, work...)
	p.histogram("dynamo_component_request_duration_seconds", "Time spent processing requests by work handler",
		s.duration, work...)
	p.counter("dynamo_component_requests_total", "Total number of requests processed by work handler", s.requests,
		work...)
	p.counter("dynamo_component_response_bytes_total", "Total number of bytes sent in responses by work handler", s.out,
		work...)
	if s.failed > 0 { // a counter with labels is absent before its first increment
		p.counter("dynamo_component_errors_total", "Total number of errors in work handler processing", s.failed,
			append([]string{"error_type", "generate"}, work...)...)
	}
	p.gauge("dynamo_component_uptime_seconds", "Total uptime of the DistributedRuntime in seconds", f.now-w.started)
}

// frontendTarget returns the frontend as service discovery lists it.
func (f *Fleet) frontendTarget() Target {
	return Target{Job: "frontend", Path: "/gateway/metrics", Labels: map[string]string{
		"job": "dynamo-frontend", "instance": fmt.Sprintf("10.42.9.%d:8000", 10+len(f.cfg.Pool)), "namespace": f.cfg.Namespace,
		"pod": f.gateway.pod, "container": "main",
	}}
}
