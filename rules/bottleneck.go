package rules

import (
	"fmt"
	"slices"

	"paramedic/state"
)

// A BottleneckClass names the phase that dominates the time of a pool's requests.
type BottleneckClass string

// The classes, in the order in which they are checked: causes of late first tokens come before
// causes of late later tokens. The order and the thresholds are those of the classifier in the
// Dynamo tracing guide. They are shares of the time to the first token; the share of decoding is of
// the whole request. If decoding is over 90 % of a request, prefill is no class, since it dominates
// every first token that did not wait. The guide describes decode_bound (its example is 91 %) but
// leaves it out of its code.
const (
	// waiting is over 60 % of the time to the first token
	BottleneckQueue BottleneckClass = "queue_saturation"
	// prefill is over 70 %, and under 10 % of the prompt tokens hit the prefix cache
	BottleneckNoCache BottleneckClass = "prefill_no_cache"
	BottleneckPrefill BottleneckClass = "prefill_compute_bound" // prefill is over 70 %
	// the p95 of the gaps between tokens is over three times their p50
	BottleneckSpikes     BottleneckClass = "decode_latency_spike"
	BottleneckDecode     BottleneckClass = "decode_bound" // decoding is over 90 % of a request
	BottleneckBalanced   BottleneckClass = "balanced"
	BottleneckUnmeasured BottleneckClass = "unknown"
)

// A BottleneckSource names the data that a classification uses.
type BottleneckSource string

// The sources of a classification.
const (
	BottleneckFromHistograms BottleneckSource = "histograms"
	BottleneckFromTraces     BottleneckSource = "traces"
)

// A Bottleneck describes where a pool's request time goes, and what its latencies mean together.
//
// It uses the latency histograms if the engine exports all of them, because they count every
// request. Traces are a sample, often of slow requests. If histograms are missing (only vLLM
// exports those of prefill and decoding), it uses the traces. If both exist, Traced holds the
// result of the traces.
type Bottleneck struct {
	Class BottleneckClass `json:"class"`
	// From is the source; empty if the class is unknown.
	From BottleneckSource `json:"from,omitempty"`
	// Queue, Prefill and Decode are shares of a request's time, where E2E = queue + prefill +
	// decode. They are null if not measured. Route is the share of choosing a worker; only traces
	// have it.
	Queue   *float64 `json:"queue"`
	Prefill *float64 `json:"prefill"`
	Decode  *float64 `json:"decode"`
	Route   *float64 `json:"route,omitempty"`
	// Reading interprets the first token, the queue and the gaps between tokens together. It is
	// empty if a baseline is missing.
	Reading string `json:"reading,omitempty"`
	// Requests counts the traced requests; zero without traces.
	Requests int `json:"requests,omitempty"`
	// Slowest describes the slowest traced request.
	Slowest string `json:"slowest,omitempty"`
	// Traced holds the classification from traces if From is histograms.
	Traced *Bottleneck `json:"traced,omitempty"`

	unsaid  string // why there is no result from traces
	waiting string // the number of waiting requests, if the share of waiting is too small to show them
}

// String returns the bottleneck on one line.
func (b Bottleneck) String() string {
	if b.Queue == nil {
		out := "was not measured"
		if b.unsaid != "" {
			out += " (traces: " + b.unsaid + ")"
		}
		return out
	}
	out := b.shares() + ": " + string(b.Class) + b.ofFirst()
	switch {
	case b.From == BottleneckFromTraces:
		out += fmt.Sprintf(", from %d traces", b.Requests)
	case b.Traced == nil:
		out += ", from latency histograms"
	case b.Traced.Class == b.Class:
		out += fmt.Sprintf(", from latency histograms; %d traces say the same", b.Traced.Requests)
	default:
		out += fmt.Sprintf(", from latency histograms; %d traces say %s (%s)", b.Traced.Requests, b.Traced.Class, b.Traced.shares()+b.Traced.ofFirst())
	}
	if b.waiting != "" {
		out += fmt.Sprintf("; the %s that wait now are not counted before they end", b.waiting)
	}
	if b.Reading != "" {
		out += "; " + b.Reading
	}
	return out
}

func (b Bottleneck) shares() string {
	route := ""
	if b.Route != nil {
		route = fmt.Sprintf("routing %.0f %%, ", 100**b.Route)
	}
	return fmt.Sprintf("%squeue %.0f %%, prefill %.0f %%, decode %.0f %% of a request", route, 100**b.Queue, 100**b.Prefill, 100**b.Decode)
}

// ofFirst returns the dominant phase's share of the time to the first token. It returns "" if the
// shares of the whole request already show why the class was chosen.
func (b Bottleneck) ofFirst() string {
	part := 0.0
	switch b.Class {
	case BottleneckQueue:
		part = *b.Queue
	case BottleneckNoCache, BottleneckPrefill:
		part = *b.Prefill
	}
	if part == 0 || part >= *b.Decode {
		return ""
	}
	return fmt.Sprintf(", %.0f %% of the time to the first token", 100*part/(1-*b.Decode))
}

// bottleneckSignals holds the signals that a classification reads from one source.
type bottleneckSignals struct {
	from                          BottleneckSource
	queue, prefill, decode, route string
	usual, slow                   string // p50 and p95 of the gaps between tokens
	hits                          []string
}

var (
	byHistograms = bottleneckSignals{from: BottleneckFromHistograms, queue: "queue_time_mean", prefill: "prefill_time_mean", decode: "decode_time_mean",
		usual: "itl_p50", slow: "itl_p95", hits: []string{"prefix_hit_ratio"}}
	byTraces = bottleneckSignals{from: BottleneckFromTraces, queue: "trace_queue_time", prefill: "trace_prefill_time", decode: "trace_decode_time",
		route: "trace_route_time", usual: "trace_itl_p50", slow: "trace_itl_p95", hits: []string{"prefix_hit_ratio", "trace_prefix_hit_ratio"}}
)

// Bottleneck classifies a scope from its latency histograms, or else from its traces.
func (c *Catalog) Bottleneck(scope state.Scope, ev *state.Evidence) Bottleneck {
	v := newView(&state.Incident{}, scope, ev, c.reading(bottleneckReads...))
	defer v.release()
	return bottleneckOf(v)
}

// bottleneckReads lists the signals that a classification reads.
var bottleneckReads = []string{"ttft_p95", "itl_p50", "itl_p95", "queue_time_p95", "queue_time_mean", "prefill_time_mean", "decode_time_mean", "prefix_hit_ratio",
	"trace_requests", "trace_queue_time", "trace_prefill_time", "trace_decode_time", "trace_route_time", "trace_itl_p50", "trace_itl_p95",
	"trace_prefix_hit_ratio", "trace_slowest", "requests_waiting"}

// late lists the latency symptoms. For an incident with one of them, the story shows where the time
// goes.
var late = []state.Symptom{"ttft_high", "itl_high", "e2e_high", "queue_buildup", "queue_time_high", "slo_burn"}

// whereTimeGoes describes the classification in one or two sentences if the incident's requests are
// late. It returns "" if the time was not measured.
func whereTimeGoes(in *state.Incident, v *view) string {
	if v == nil || !slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return slices.Contains(late, s.Symptom) }) {
		return ""
	}
	b := bottleneckOf(v)
	if b.Queue == nil {
		return ""
	}
	text := b.String() + "."
	if b.Slowest != "" {
		text += " The slowest traced request took " + b.Slowest + "."
	}
	return text
}

func bottleneckOf(v *view) Bottleneck {
	g := v.whole
	traced := byTraces.classify(g)
	traced.Requests = int(g.numberOf("trace_requests").v)
	if r := g.reading("trace_slowest"); r != nil && r.hasText() && r.value().ok {
		traced.Slowest = fmt.Sprintf("%.1f s: %s", r.Value, r.Text)
	}
	traced.unsaid = v.whyMissing(byTraces.queue)
	out := byHistograms.classify(g)
	switch {
	case out.Class == BottleneckUnmeasured:
		out = traced
	case traced.Class != BottleneckUnmeasured:
		out.Traced = &traced
		fallthrough
	default:
		out.Requests, out.Slowest = traced.Requests, traced.Slowest
	}
	if r := g.reading("requests_waiting"); r != nil && r.sum.ok && r.sum.v >= 2 && out.Queue != nil && *out.Queue < unqueued {
		out.waiting = fmt.Sprintf("%.0f", r.sum.v)
	}
	out.Reading = interpret(g)
	return out
}

// unqueued is the share of waiting below which waiting requests are mentioned. Engines observe a
// request's waiting time when the request ends (vLLM) or is scheduled (SGLang), so present waiting
// is not in it yet.
const unqueued = 0.1

// numberOf returns a signal's value for the group.
func (g *group) numberOf(signal string) number {
	if r := g.reading(signal); r != nil {
		return r.value()
	}
	return number{}
}

// classify classifies the group from one source.
func (s bottleneckSignals) classify(g *group) Bottleneck {
	out := Bottleneck{Class: BottleneckUnmeasured}
	queue, prefill, decode, route := g.numberOf(s.queue), g.numberOf(s.prefill), g.numberOf(s.decode), g.numberOf(s.route)
	total := queue.v + prefill.v + decode.v
	if route.ok {
		total += route.v
	}
	if !queue.ok || !prefill.ok || !decode.ok || total <= 0 {
		return out
	}
	share := func(part float64) *float64 {
		part = round(part/total, 4)
		return &part
	}
	out.From = s.from
	out.Queue, out.Prefill, out.Decode = share(queue.v), share(prefill.v), share(decode.v)
	if route.ok {
		out.Route = share(route.v)
	}
	var hits number
	for _, signal := range s.hits {
		if !hits.ok {
			hits = g.numberOf(signal)
		}
	}
	first := total - decode.v
	usual, slow := g.numberOf(s.usual), g.numberOf(s.slow)
	decodes := decode.v > 0.9*total
	prefills := prefill.v > 0.7*first && !decodes
	switch {
	case queue.v > 0.6*first:
		out.Class = BottleneckQueue
	case prefills && hits.ok && hits.v < 0.1:
		out.Class = BottleneckNoCache
	case prefills:
		out.Class = BottleneckPrefill
	case slow.ok && usual.ok && usual.v > 0 && slow.v > 3*usual.v:
		out.Class = BottleneckSpikes
	case decodes:
		out.Class = BottleneckDecode
	default:
		out.Class = BottleneckBalanced
	}
	return out
}

// risen is the factor over its baseline above which a latency counts as high.
const risen = 1.5

// interpret reads the first token, the queue and the gaps between tokens together, with the matrix
// of the vLLM runbook.
func interpret(g *group) string {
	var high [3]bool
	for i, signal := range []string{"ttft_p95", "queue_time_p95", "itl_p95"} {
		r := g.reading(signal)
		if r == nil || !r.value().ok || !r.baseline().ok {
			return ""
		}
		high[i] = r.Value > risen*r.baseline().v && r.Value-r.baseline().v > 0.01
	}
	switch high {
	case [3]bool{true, true, false}:
		return "first token and queue are late and decoding is as before: overload, or large prefills"
	case [3]bool{true, false, false}:
		return "first tokens are late without a queue: slow prefill, or less reuse of prefixes"
	case [3]bool{false, false, true}:
		return "only the gaps between tokens have grown: slow decoding"
	case [3]bool{true, true, true}:
		return "first token, queue and gaps between tokens are all late: severe saturation"
	case [3]bool{false, false, false}:
		return "latencies are as before"
	}
	return ""
}

// reading returns a copy of the catalogue for a view that reads only these signals.
func (c *Catalog) reading(signals ...string) *Catalog {
	used := map[string]bool{}
	for _, s := range signals {
		used[s] = true
	}
	out := *c
	out.used = used
	return &out
}
