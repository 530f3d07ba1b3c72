// Package traces reads from Tempo or Jaeger how long each phase of a request took.
//
// It costs the store little: a gathering sends at most two requests, bounded in time, traces and
// bytes. Names from the store are compared and shown, but never put into a query. The package
// quotes pool names in queries. It does not count a span whose times are inconsistent, or whose
// pool is unknown. It reports means and quantiles only if there are at least [MinRequests] traced
// requests. Errors contain neither the store's address nor its credentials. The package only reads.
//
// Traces are sampled, and slow requests are often preferred. Their means are therefore not means of
// all requests. So traces have signals of their own (trace_…), without baselines, which never
// replace those of histograms.
//
// These are the spans that engines write, and the source of each name:
//
//   - vLLM writes one span, llm_request, for a finished request, with times in seconds. V1
//     (vllm/v1/engine/output_processor.py, since 0.10.1) has gen_ai.latency.time_in_queue,
//     time_in_model_prefill, time_in_model_decode, time_to_first_token and e2e. V0
//     (vllm/engine/llm_engine.py) has time_in_queue, time_to_first_token and e2e, which give the
//     same by E2E = queue + prefill + decode, and gen_ai.response.model. Both have
//     gen_ai.usage.prompt_tokens and completion_tokens (vllm/tracing).
//   - SGLang (python/sglang/srt/observability, with --enable-trace) writes a tree. Its root has
//     module = sglang::request, the same gen_ai names, gen_ai.usage.cached_tokens and
//     gen_ai.response.model. Each stage has a span. The attribute time_in_model_prefill begins when
//     the scheduler receives the request, and so includes the queue. The package therefore takes
//     the durations of the spans prefill_waiting and prefill_forward, which every rank writes.
//   - Dynamo's frontend writes kv_router.select_worker (lib/llm/src/kv_router) for choosing a
//     worker, in the engine's trace.
//
// No engine writes the time of each token. The gap between tokens is a request's decode time
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

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

const (
	// MinRequests is the smallest number of traced requests that gives times.
	MinRequests = 20
	// Window limits the age of the requests that are read.
	Window = 10 * time.Minute

	maxTraces = 200
	maxAnswer = 16 << 20
)

// Config holds the address of a trace store. Exactly one of the two URLs is set.
type Config struct {
	TempoURL  string
	JaegerURL string
	Token     func() (string, error)      // bearer token, read at every call; nil: none
	Headers   func() (http.Header, error) // read at every call; nil: none
	Transport http.RoundTripper           // nil: http.DefaultTransport
	Timeout   time.Duration               // of one call; zero: 4 s
	Clock     state.Clock                 // nil: the system clock; only Ping uses it
}

// A store is one kind of trace store. Its method find returns the engines' spans between two times,
// in at most two requests. It may also return spans of other scopes.
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

// New returns a client; it does not connect.
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
	client := &http.Client{Transport: c.Transport, Timeout: c.Timeout, CheckRedirect: enrich.RefuseRedirect}
	api := caller{display: who, base: base, token: c.Token, headers: c.Headers, http: client}
	if who == "Tempo" {
		return &Client{store: tempo{api}, clock: c.Clock}, nil
	}
	return &Client{store: jaeger{api}, clock: c.Clock}, nil
}

// Ping sends the same kind of request as a gathering.
func (c *Client) Ping(ctx context.Context) error { return c.store.ping(ctx, c.clock.Now()) }

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	wanted := map[string]signals.Signal{}
	for _, s := range q.Signals {
		if slices.Contains(s.By, signals.ByTraces) {
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
	groups, unplaced := groupByPool(found.requests, q)
	if len(groups) == 0 {
		return fail(reasonForNone(c.store.name(), found, unplaced))
	}
	for _, g := range groups {
		g.measure(&out, wanted)
	}
	return out
}

// reasonForNone returns why a search found no requests of the scope.
func reasonForNone(who string, found finding, unplaced int) string {
	switch {
	case unplaced > 0:
		return fmt.Sprintf("%s has %d traced requests that do not name a pool: "+
			"set OTEL_SERVICE_NAME to the pool's name, or add the resource attribute k8s.pod.name", who, unplaced)
	case found.unfit > 0 && len(found.requests) == 0:
		return fmt.Sprintf("%s has %d spans of requests without times for queue, prefill and decode",
			who, found.unfit)
	case len(found.requests) > 0:
		return fmt.Sprintf("%s has %d traced requests, none of this pool", who, len(found.requests))
	}
	return fmt.Sprintf("%s has no traces of requests in the last %d minutes", who, int(Window.Minutes()))
}
