package rules

import (
	"fmt"

	"paramedic/state"
)

// BottleneckClass is where the time of a pool's requests goes.
type BottleneckClass string

// The classes. The thresholds are those of the Dynamo tracing guide's classifier, as shares of the time to the first token; the share of
// decoding is of the whole request.
const (
	BottleneckQueue      BottleneckClass = "queue_saturation"      // over 60 % of the time to the first token is waiting
	BottleneckNoCache    BottleneckClass = "prefill_no_cache"      // over 70 % is prefill, and under 10 % of the prompt tokens hit the prefix cache
	BottleneckPrefill    BottleneckClass = "prefill_compute_bound" // over 70 % is prefill
	BottleneckSpikes     BottleneckClass = "decode_latency_spike"  // the slow gaps between tokens are over three times the usual ones
	BottleneckDecode     BottleneckClass = "decode_bound"          // over 90 % of a request is decoding
	BottleneckBalanced   BottleneckClass = "balanced"
	BottleneckUnmeasured BottleneckClass = "unknown"
)

// A Bottleneck says where a pool's time goes, and what its latencies together mean.
type Bottleneck struct {
	Class BottleneckClass `json:"class"`
	// Queue, Prefill and Decode are shares of a request's time, by E2E = queue + prefill + decode; null where they were not measured.
	Queue   *float64 `json:"queue"`
	Prefill *float64 `json:"prefill"`
	Decode  *float64 `json:"decode"`
	// Reading is what the first token, the queue and the gaps between tokens mean together; empty where a baseline is missing.
	Reading string `json:"reading,omitempty"`
}

// String is the bottleneck in a line.
func (b Bottleneck) String() string {
	if b.Queue == nil {
		return "where the time goes was not measured"
	}
	out := fmt.Sprintf("queue %.0f %%, prefill %.0f %%, decode %.0f %% of a request: %s", 100**b.Queue, 100**b.Prefill, 100**b.Decode, b.Class)
	if b.Reading != "" {
		out += "; " + b.Reading
	}
	return out
}

// Bottleneck classifies a scope by its latency histograms.
func (c *Catalog) Bottleneck(scope state.Scope, ev *state.Evidence) Bottleneck {
	g := newView(&state.Incident{}, scope, ev, c.reading("ttft_p95", "itl_p50", "itl_p95", "queue_time_p95", "queue_time_mean", "prefill_time_mean", "decode_time_mean", "prefix_hit_ratio")).whole
	of := func(signal string) number {
		if r := g.reading(signal); r != nil {
			return r.value()
		}
		return number{}
	}
	out := Bottleneck{Class: BottleneckUnmeasured, Reading: interpret(g)}
	queue, prefill, decode := of("queue_time_mean"), of("prefill_time_mean"), of("decode_time_mean")
	total := queue.v + prefill.v + decode.v
	if !queue.ok || !prefill.ok || !decode.ok || total <= 0 {
		return out
	}
	share := func(part float64) *float64 {
		part = round(part/total, 4)
		return &part
	}
	out.Queue, out.Prefill, out.Decode = share(queue.v), share(prefill.v), share(decode.v)
	first, hits := queue.v+prefill.v, of("prefix_hit_ratio")
	usual, slow := of("itl_p50"), of("itl_p95")
	switch {
	case slow.ok && usual.ok && usual.v > 0 && slow.v > 3*usual.v:
		out.Class = BottleneckSpikes
	case decode.v > 0.9*total:
		out.Class = BottleneckDecode
	case queue.v > 0.6*first:
		out.Class = BottleneckQueue
	case prefill.v > 0.7*first && hits.ok && hits.v < 0.1:
		out.Class = BottleneckNoCache
	case prefill.v > 0.7*first:
		out.Class = BottleneckPrefill
	default:
		out.Class = BottleneckBalanced
	}
	return out
}

// risen is how far over its baseline a latency has to be to count as high.
const risen = 1.5

// interpret reads the first token, the queue and the gaps between tokens together, by the matrix of the vLLM runbook.
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

// reading is the catalogue as a view needs it, reading these signals only.
func (c *Catalog) reading(signals ...string) *Catalog {
	used := map[string]bool{}
	for _, s := range signals {
		used[s] = true
	}
	return &Catalog{numbers: c.numbers, used: used}
}
