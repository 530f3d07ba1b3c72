// Package traces reads where requests spent their time from a trace store: Tempo or Jaeger.
//
// It promises to cost the store little: a gathering is at most two requests, each bounded in time,
// in traces and in bytes. What the store says is data: names from it are compared and shown, never
// put into a query, and what goes into a query is quoted. A span whose times do not fit into it, or
// that does not tell which pool it is of, is not counted. Fewer than [MinRequests] traced requests
// give no times: a handful says nothing. Nothing of the store's address or credentials gets into an
// error. It only reads.
//
// Traces are sampled, often the slow ones rather than the others, so that their means are no means
// of all requests: they have signals of their own (trace_…), without baselines, and never stand in
// for those of histograms.
//
// What engines write, and where each name was read:
//
//   - vLLM writes one span, llm_request, for a finished request, with times in seconds. V1
//     (vllm/v1/engine/output_processor.py, since 0.10.1) has gen_ai.latency.time_in_queue,
//     time_in_model_prefill, time_in_model_decode, time_to_first_token and e2e. V0
//     (vllm/engine/llm_engine.py) has time_in_queue, time_to_first_token and e2e, which give the
//     same by E2E = queue + prefill + decode, and gen_ai.response.model. Both have
//     gen_ai.usage.prompt_tokens and completion_tokens (vllm/tracing).
//   - SGLang (python/sglang/srt/observability, with --enable-trace) writes a tree: a root with
//     module = sglang::request, the same gen_ai names, gen_ai.usage.cached_tokens and
//     gen_ai.response.model, and a span for each stage. Its time_in_model_prefill begins when the
//     request is handed to the scheduler and holds the queue too; so the queue and the prefill are
//     the durations of the spans prefill_waiting and prefill_forward, which every rank of a
//     parallel group writes.
//   - Dynamo's frontend writes kv_router.select_worker (lib/llm/src/kv_router) for choosing a
//     worker, in the trace of the engine.
//
// None of them writes the time of each token: the gaps between tokens are a request's decoding
// divided by its tokens.
package traces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

const (
	// MinRequests is how many traced requests it takes to speak of where their time goes.
	MinRequests = 20
	// Window is how far back requests are looked for.
	Window = 10 * time.Minute

	maxTraces = 200
	maxAnswer = 16 << 20
)

// Config says where traces are: one of the two addresses is set.
type Config struct {
	TempoURL  string
	JaegerURL string
	Token     func() (string, error) // bearer token, asked for at every call; nil: none
	Transport http.RoundTripper      // nil: http.DefaultTransport
	Timeout   time.Duration          // of one call; zero: 4 s
	Clock     state.Clock            // nil: the machine's; only a ping reads it
}

// A store is one kind of trace store. Find gives the spans of engines between two times that may be
// of the scope, in at most two requests; it may give spans of others too.
type store interface {
	name() string
	find(ctx context.Context, scope state.Scope, from, to time.Time) ([]span, error)
	ping(ctx context.Context, now time.Time) error
}

// A Client reads one trace store. It is safe for concurrent use.
type Client struct {
	store store
	clock state.Clock
}

// New makes a client; it does not connect.
func New(c Config) (*Client, error) {
	if (c.TempoURL == "") == (c.JaegerURL == "") {
		return nil, errors.New("traces: want either tempo_url or jaeger_url")
	}
	if c.Clock == nil {
		c.Clock = state.SystemClock{}
	}
	if c.Timeout <= 0 {
		c.Timeout = 4 * time.Second
	}
	key, raw, who := "tempo_url", c.TempoURL, "Tempo"
	if raw == "" {
		key, raw, who = "jaeger_url", c.JaegerURL, "Jaeger"
	}
	base, err := url.Parse(raw)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("traces.%s: want an address such as http://tempo:3200", key)
	}
	api := caller{who: who, base: base, token: c.Token, http: &http.Client{Transport: c.Transport, Timeout: c.Timeout, CheckRedirect: enrich.RefuseRedirect}}
	if who == "Tempo" {
		return &Client{store: tempo{api}, clock: c.Clock}, nil
	}
	return &Client{store: jaeger{api}, clock: c.Clock}, nil
}

// Ping asks for a trace, or for the names of services, as a gathering does.
func (c *Client) Ping(ctx context.Context) error { return c.store.ping(ctx, c.clock.Now()) }

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	wanted := map[string]rules.Signal{}
	for _, s := range q.Signals {
		if slices.Contains(s.By, rules.ByTraces) {
			wanted[s.ID] = s
		}
	}
	if len(wanted) == 0 {
		return out
	}
	fail := func(reason string) enrich.Reading {
		for id := range wanted {
			out.Fail(id, reason)
		}
		return out
	}
	spans, err := c.store.find(ctx, q.Scope, q.Now.Add(-Window), q.Now)
	if err != nil {
		return fail(err.Error())
	}
	found := requestsOf(spans)
	groups, strange := grouped(found.requests, q)
	if len(groups) == 0 {
		return fail(nothingOf(c.store.name(), found, strange))
	}
	for _, g := range groups {
		g.measure(&out, wanted)
	}
	return out
}

// nothingOf says why a search gave nothing for a scope.
func nothingOf(who string, found finding, strange int) string {
	switch {
	case strange > 0:
		return fmt.Sprintf("%s has %d traced requests that do not say they are of this pool: give the engines its name as OTEL_SERVICE_NAME, or the resource attribute k8s.pod.name", who, strange)
	case found.unfit > 0 && len(found.requests) == 0:
		return fmt.Sprintf("%s has %d spans of requests without the times of queue, prefill and decoding", who, found.unfit)
	case len(found.requests) > 0:
		return fmt.Sprintf("%s has %d traced requests, and none of this pool", who, len(found.requests))
	}
	return fmt.Sprintf("%s has no traces of requests in the last %d minutes", who, int(Window.Minutes()))
}
