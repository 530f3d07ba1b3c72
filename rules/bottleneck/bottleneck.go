package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/state"
)

// A Class names the phase that dominates the time of a pool's requests.
type Class string

// The classes, in the order in which they are checked: causes of late first tokens come before
// causes of late later tokens. The order and the thresholds are those of the classifier in the
// Dynamo tracing guide. They are shares of the time to the first token; the share of decoding is of
// the whole request. If decoding is over 90 % of a request, prefill is no class, since it dominates
// every first token that did not wait. The guide describes decode_bound (its example is 91 %) but
// leaves it out of its code.
const (
	// Waiting is over 60 % of the time to the first token.
	BottleneckQueue Class = "queue_saturation"
	// Prefill is over 70 %, and under 10 % of the prompt tokens hit the prefix cache.
	BottleneckNoCache Class = "prefill_no_cache"
	BottleneckPrefill Class = "prefill_compute_bound" // prefill is over 70 %
	// The p95 of the gaps between tokens is over three times their p50.
	BottleneckSpikes     Class = "decode_latency_spike"
	BottleneckDecode     Class = "decode_bound" // decoding is over 90 % of a request
	BottleneckBalanced   Class = "balanced"
	BottleneckUnmeasured Class = "unknown"
)

// A Source names the data that a classification uses.
type Source string

// The sources of a classification.
const (
	BottleneckFromHistograms Source = "histograms"
	BottleneckFromTraces     Source = "traces"
)

// A Bottleneck describes where a pool's request time goes, and what its latencies mean together.
//
// It uses the latency histograms if the engine exports all of them, because they count every
// request. Traces are a sample, often of slow requests. If histograms are missing (only vLLM
// exports those of prefill and decoding), it uses the traces. If both exist, Traced holds the
// result of the traces.
type Bottleneck struct {
	Class Class `json:"class"`
	// From is the source; empty if the class is unknown.
	From Source `json:"from,omitempty"`
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

	unsaid  string // the reason why there is no result from traces
	waiting string // the number of waiting requests, if the share of waiting is too small to show them
}

// String returns the bottleneck as one sentence, without its capital and full stop.
func (b Bottleneck) String() string {
	if b.Queue == nil {
		out := "was not measured"
		if b.unsaid != "" {
			out += " (traces: " + b.unsaid + ")"
		}
		return out
	}
	who := "requests"
	if b.From == BottleneckFromTraces {
		who = fmt.Sprintf("%d traced requests", b.Requests)
	}
	out := fmt.Sprintf("%s spend %s: %s", who, b.shares(), b.dominant())
	if notes := b.notes(); len(notes) > 0 {
		out += " (" + strings.Join(notes, "; ") + ")"
	}
	return out
}

func (b Bottleneck) shares() string {
	queue := fmt.Sprintf("%.0f %% of their time in the queue", 100**b.Queue)
	if b.Route != nil {
		queue = fmt.Sprintf("%.0f %% of their time in routing, %.0f %% in the queue", 100**b.Route, 100**b.Queue)
	}
	return fmt.Sprintf("%s, %.0f %% in prefill and %.0f %% in decode", queue, 100**b.Prefill, 100**b.Decode)
}

// dominant describes the class.
func (b Bottleneck) dominant() string {
	switch b.Class {
	case BottleneckQueue:
		return "the queue " + b.leads(*b.Queue)
	case BottleneckNoCache:
		return "prefill " + b.leads(*b.Prefill) + ", and few prompts hit the prefix cache"
	case BottleneckPrefill:
		return "prefill " + b.leads(*b.Prefill)
	case BottleneckSpikes:
		return "gaps between tokens spike"
	case BottleneckDecode:
		return "decode dominates"
	}
	return "no phase dominates"
}

// leads returns the dominant phase's share of the time to first token if its share of the whole
// request does not show why the class was chosen.
func (b Bottleneck) leads(part float64) string {
	if part >= *b.Decode {
		return "dominates"
	}
	return fmt.Sprintf("takes %.0f %% of the time to first token", 100*part/(1-*b.Decode))
}

// notes lists what the reader must know to trust the shares, and where to look further.
func (b Bottleneck) notes() []string {
	var out []string
	switch {
	case b.Traced == nil:
	case b.Traced.Class == b.Class:
		out = append(out, fmt.Sprintf("%d traces agree", b.Traced.Requests))
	default:
		out = append(out, fmt.Sprintf("%d traces disagree: %s", b.Traced.Requests, b.Traced.dominant()))
	}
	if b.waiting != "" {
		out = append(out, b.waiting+" waiting requests are not counted yet")
	}
	if took, details, ok := strings.Cut(b.Slowest, ": "); ok {
		if i := strings.LastIndex(details, "trace "); i >= 0 {
			took += ", " + details[i:]
		}
		out = append(out, "the slowest trace took "+took)
	}
	return out
}

// bottleneckSignals holds the signals that a classification reads from one source.
type bottleneckSignals struct {
	from                          Source
	queue, prefill, decode, route string
	usual, slow                   string // p50 and p95 of the gaps between tokens
	hits                          []string
}

var (
	byHistograms = bottleneckSignals{from: BottleneckFromHistograms, queue: "queue_time_mean",
		prefill: "prefill_time_mean", decode: "decode_time_mean",
		usual: "itl_p50", slow: "itl_p95", hits: []string{"prefix_hit_ratio"}}
	byTraces = bottleneckSignals{from: BottleneckFromTraces, queue: "trace_queue_time", prefill: "trace_prefill_time",
		decode: "trace_decode_time",
		route:  "trace_route_time", usual: "trace_itl_p50", slow: "trace_itl_p95",
		hits: []string{"prefix_hit_ratio", "trace_prefix_hit_ratio"}}
)

// Of classifies a scope from its latency histograms, or else from its traces.
func Of(c *catalog.Catalog, scope state.Scope, ev *state.Evidence) Bottleneck {
	v := evidence.ArrangeScope(&state.Incident{}, scope, ev, c.WithUsed(catalog.BottleneckReads...))
	defer v.Release()
	return bottleneckOf(v)
}

// late lists the latency symptoms. For an incident with one of them, the story shows where the time
// goes.
var late = []state.Symptom{"ttft_high", "itl_high", "e2e_high", "queue_buildup", "queue_time_high", "slo_burn"}

// WhereTimeGoes describes the classification in one sentence if the incident's requests are
// late. It returns "" if the time was not measured.
func WhereTimeGoes(in *state.Incident, v *evidence.View) string {
	if v == nil || !slices.ContainsFunc(in.Symptoms,
		func(s state.SymptomCount) bool { return slices.Contains(late, s.Symptom) }) {
		return ""
	}
	b := bottleneckOf(v)
	if b.Queue == nil {
		return ""
	}
	out := b.String()
	return strings.ToUpper(out[:1]) + out[1:] + "."
}

func bottleneckOf(v *evidence.View) Bottleneck {
	g := v.Whole()
	traced := byTraces.classify(g)
	traced.Requests = int(g.NumberOf("trace_requests").V)
	if r := g.Reading("trace_slowest"); r != nil && r.HasText() && r.CurrentValue().OK {
		traced.Slowest = fmt.Sprintf("%.1f s: %s", r.Value, r.Text)
	}
	traced.unsaid = v.WhyMissing(byTraces.queue)
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
	if r := g.Reading("requests_waiting"); r != nil && r.Sum.OK && r.Sum.V >= 2 && out.Queue != nil &&
		*out.Queue < unqueued {
		out.waiting = fmt.Sprintf("%.0f", r.Sum.V)
	}
	out.Reading = interpret(g)
	return out
}

// unqueued is the share of waiting below which waiting requests are mentioned. Engines observe a
// request's waiting time when the request ends (vLLM) or is scheduled (SGLang), so present waiting
// is not in it yet.
const unqueued = 0.1

// classify classifies the subject's time from one source.
func (s bottleneckSignals) classify(g *evidence.Subject) Bottleneck {
	out := Bottleneck{Class: BottleneckUnmeasured}
	queue, prefill := g.NumberOf(s.queue), g.NumberOf(s.prefill)
	decode, route := g.NumberOf(s.decode), g.NumberOf(s.route)
	total := queue.V + prefill.V + decode.V
	if route.OK {
		total += route.V
	}
	if !queue.OK || !prefill.OK || !decode.OK || total <= 0 {
		return out
	}
	share := func(part float64) *float64 {
		part = condition.Round(part/total, 4)
		return &part
	}
	out.From = s.from
	out.Queue, out.Prefill, out.Decode = share(queue.V), share(prefill.V), share(decode.V)
	if route.OK {
		out.Route = share(route.V)
	}
	var hits condition.Number
	for _, signal := range s.hits {
		if !hits.OK {
			hits = g.NumberOf(signal)
		}
	}
	first := total - decode.V
	usual, slow := g.NumberOf(s.usual), g.NumberOf(s.slow)
	decodes := decode.V > 0.9*total
	prefills := prefill.V > 0.7*first && !decodes
	switch {
	case queue.V > 0.6*first:
		out.Class = BottleneckQueue
	case prefills && hits.OK && hits.V < 0.1:
		out.Class = BottleneckNoCache
	case prefills:
		out.Class = BottleneckPrefill
	case slow.OK && usual.OK && usual.V > 0 && slow.V > 3*usual.V:
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
func interpret(g *evidence.Subject) string {
	var high [3]bool
	for i, signal := range []string{"ttft_p95", "queue_time_p95", "itl_p95"} {
		r := g.Reading(signal)
		if r == nil || !r.CurrentValue().OK || !r.BaselineValue().OK {
			return ""
		}
		high[i] = r.Value > risen*r.BaselineValue().V && r.Value-r.BaselineValue().V > 0.01
	}
	switch high {
	case [3]bool{true, true, false}:
		return "time to first token and queue time are high, decode is normal: overload or long prompts"
	case [3]bool{true, false, false}:
		return "time to first token is high without a queue: slow prefill or fewer prefix cache hits"
	case [3]bool{false, false, true}:
		return "only the time between tokens is high: slow decode"
	case [3]bool{true, true, true}:
		return "time to first token, queue time and time between tokens are high: severe saturation"
	case [3]bool{false, false, false}:
		return "latencies are normal"
	}
	return ""
}
