package front

import (
	"strings"

	"paramedic/lab/engine"
	"paramedic/lab/metrics"
)

// A Frontend counts the requests that pass Dynamo's frontend.
type Frontend struct {
	answered, failed, left               float64 // left: cancelled, which this frontend counts as an error
	tokens                               float64
	ttft, itl, duration, prompts, output *metrics.Histogram
}

func newFrontend() *Frontend {
	h := metrics.NewHistogram
	return &Frontend{ttft: h(frontTTFTEdges), itl: h(frontITLEdges), duration: h(frontDurationEdges),
		prompts: h(frontPromptEdges), output: h(frontOutputEdges)}
}

// Token observes a token on its way to the client, before it changes the request.
func (s *Frontend) Token(r *engine.Request, now float64) {
	s.tokens++
	if r.FirstToken == 0 {
		s.ttft.Observe(now - r.Arrived)
		s.prompts.Observe(float64(r.Prompt))
		return
	}
	s.itl.Observe(now - r.LastToken)
}

// Ended observes an answer that is complete or, if not whole, cancelled.
func (s *Frontend) Ended(r *engine.Request, now float64, whole bool) {
	if whole {
		s.answered++
	} else {
		s.left++
	}
	s.duration.Observe(now - r.Arrived)
	s.output.Observe(float64(r.Generated))
}

// fail counts a request that the frontend or its worker fails.
func (s *Frontend) fail() {
	if s != nil {
		s.failed++
	}
}

// The bucket edges of Dynamo's frontend.
var (
	frontTTFTEdges = []float64{0, .0022, .0047, .01, .022, .047, .1, .22, .47, 1, 2.2, 4.7, 10, 22, 48, 100, 220,
		480}
	frontITLEdges      = []float64{0, .0019, .0035, .0067, .013, .024, .045, .084, .16, .3, .56, 1.1, 2}
	frontDurationEdges = []float64{0, 1.9, 3.4, 6.3, 12, 22, 40, 75, 140, 260}
	frontPromptEdges   = []float64{0, 100, 210, 430, 870, 1800, 3600, 7400, 15000, 31000, 63000, 130000}
	frontOutputEdges   = []float64{0, 100, 210, 430, 880, 1800, 3700, 7600, 16000, 32000}
)

// Fill adds the frontend's samples. Series of requests have the model's name in lower case; series
// of its settings have it as configured. The engines are those that run; serving is the first one
// whose worker serves, or nil.
func (s *Frontend) Fill(p *metrics.Page, model string, engines []*engine.Engine, serving *engine.Engine) {
	lower := []string{"model", strings.ToLower(model)}
	inflight, queued := 0, 0
	for _, e := range engines {
		inflight += e.Load()
		queued += e.Unanswered()
	}
	p.Gauge("dynamo_frontend_disconnected_clients", "Number of disconnected clients", s.left)
	p.Gauge("dynamo_frontend_inflight_requests", "Number of inflight requests", float64(inflight), lower...)
	p.Histogram("dynamo_frontend_input_sequence_tokens", "Input sequence length in tokens", s.prompts, lower...)
	p.Histogram("dynamo_frontend_inter_token_latency_seconds", "Inter-token latency in seconds", s.itl, lower...)
	p.Histogram("dynamo_frontend_output_sequence_tokens", "Output sequence length in tokens", s.output, lower...)
	p.Counter("dynamo_frontend_output_tokens_total", "Total number of output tokens generated (updates in real-time)",
		s.tokens, lower...)
	p.Gauge("dynamo_frontend_queued_requests", "Number of requests in HTTP processing queue", float64(queued), lower...)
	p.Histogram("dynamo_frontend_request_duration_seconds", "Duration of LLM requests", s.duration, lower...)
	for _, r := range []struct {
		status string
		n      float64
	}{{"success", s.answered}, {"error", s.failed + s.left}} {
		if r.n > 0 {
			p.Counter("dynamo_frontend_requests_total", "Total number of LLM requests processed", r.n,
				append([]string{"endpoint", "chat_completions", "request_type", "stream", "status", r.status},
					lower...)...)
		}
	}
	p.Histogram("dynamo_frontend_time_to_first_token_seconds", "Time to first token in seconds", s.ttft, lower...)
	if serving != nil {
		settings(p, model, serving)
	}
}

// settings adds the settings with which the workers registered.
func settings(p *metrics.Page, model string, serving *engine.Engine) {
	e := serving.Settings()
	g := func(name, help string, v int) {
		p.Gauge("dynamo_frontend_model_"+name, help, float64(v), "model", model)
	}
	g("context_length", "Maximum context length in tokens for a worker serving the model", e.MaxModelLen)
	g("kv_cache_block_size", "KV cache block size in tokens for a worker serving the model", engine.BlockSize)
	g("max_num_batched_tokens", "Maximum number of batched tokens for a worker serving the model",
		e.MaxNumBatchedTokens)
	g("max_num_seqs", "Maximum number of sequences for a worker serving the model", e.MaxNumSeqs)
	g("migration_limit", "Maximum number of request migrations allowed for the model", 0)
	g("total_kv_blocks", "Total KV cache blocks available for a worker serving the model", serving.Blocks())
}
