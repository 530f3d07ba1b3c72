package traces

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// minOutputTokens is the shortest answer, in tokens, that counts for the gap between tokens.
const minOutputTokens = 8

// measure adds the group's samples of the wanted signals to the reading.
func (g *group) measure(out *enrich.Reading, wanted map[string]signals.Signal) {
	newest := time.Time{}
	slowest := g.requests[0]
	for _, r := range g.requests {
		if r.end.After(newest) {
			newest = r.end
		}
		if r.whole > slowest.whole {
			slowest = r
		}
	}
	put := func(id string, v float64, text string) {
		s, ok := wanted[id]
		switch {
		case !ok:
		case math.IsNaN(v):
			out.Fail(id, "not in the traces of these engines")
		default:
			out.Samples = append(out.Samples, state.Sample{Signal: id, Entity: g.entity, Value: v, Text: text,
				Unit: s.Unit, At: newest})
		}
	}
	put("trace_requests", float64(len(g.requests)), "")
	put("trace_slowest", slowest.whole, slowest.describe())
	if len(g.requests) < MinRequests {
		reason := fmt.Sprintf("only %d traced requests in %d minutes, %d are needed",
			len(g.requests), int(Window.Minutes()), MinRequests)
		for id := range wanted {
			if id != "trace_requests" && id != "trace_slowest" {
				out.Fail(id, reason)
			}
		}
		return
	}
	put("trace_queue_time", g.mean(func(r request) float64 { return r.queue }), "")
	put("trace_prefill_time", g.mean(func(r request) float64 { return r.prefill }), "")
	put("trace_decode_time", g.mean(func(r request) float64 { return r.decode }), "")
	put("trace_route_time", g.mean(func(r request) float64 { return r.route }), "")
	gaps := g.all(func(r request) float64 {
		if !(r.output >= minOutputTokens) {
			return math.NaN()
		}
		return r.decode / (r.output - 1)
	})
	put("trace_itl_p50", quantile(gaps, 0.5), "")
	put("trace_itl_p95", quantile(gaps, 0.95), "")
	put("trace_prefix_hit_ratio", g.prefixHitRatio(), "")
}

// all returns the values of the requests that have one.
func (g *group) all(of func(request) float64) []float64 {
	var out []float64
	for _, r := range g.requests {
		if v := of(r); !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// mean returns the mean of the known values, or NaN if there are fewer than MinRequests.
func (g *group) mean(of func(request) float64) float64 {
	values := g.all(of)
	if len(values) < MinRequests {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// prefixHitRatio returns the share of prompt tokens that came from the prefix cache, or NaN if
// fewer than MinRequests requests report it.
func (g *group) prefixHitRatio() float64 {
	n, cached, prompt := 0, 0.0, 0.0
	for _, r := range g.requests {
		if r.prompt > 0 && r.cached <= r.prompt {
			n, cached, prompt = n+1, cached+r.cached, prompt+r.prompt
		}
	}
	if n < MinRequests {
		return math.NaN()
	}
	return cached / prompt
}

// quantile returns the smallest value that at least a share q of the values does not exceed. It
// returns NaN if there are fewer than MinRequests values. It sorts the values.
func quantile(values []float64, q float64) float64 {
	if len(values) < MinRequests {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// describe returns a request as text: its length, the time of each phase, and its trace ID.
func (r request) describe() string {
	var parts []string
	if r.prompt > 0 {
		parts = append(parts, fmt.Sprintf("%.0f prompt tokens", r.prompt))
	}
	times := fmt.Sprintf("queue %.1f s, prefill %.1f s, decode %.1f s", r.queue, r.prefill, r.decode)
	parts = append(parts, times, "trace "+traceID(r.trace))
	return strings.Join(parts, ", ")
}

// traceID returns a valid trace ID in lower case. Other text from the store is not shown as an ID.
func traceID(id string) string {
	if len(id) == 0 || len(id) > 32 || strings.Trim(strings.ToLower(id), "0123456789abcdef") != "" {
		return "of no known form"
	}
	return strings.ToLower(id)
}
