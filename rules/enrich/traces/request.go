package traces

import (
	"math"
	"time"
)

// A request is one traced request on one engine. Times are in seconds; a missing value is NaN.
type request struct {
	trace                  string
	end                    time.Time
	queue, prefill, decode float64
	route, whole           float64
	prompt, output, cached float64
	from                   place
}

// A finding holds the requests found in spans.
type finding struct {
	requests []request
	unfit    int // engine spans whose times are missing or do not fit
}

// requestsOf builds requests from spans. One vLLM span is one request; for SGLang, one trace is.
func requestsOf(spans []span) finding {
	var out finding
	routes, stages := map[string]float64{}, map[string]*stage{}
	var order []string
	for _, s := range spans {
		if s.name == nameRouting {
			routes[s.trace] += s.duration.Seconds()
		}
		if st := stages[s.trace]; st == nil && isSGLang(s) {
			stages[s.trace] = &stage{}
			order = append(order, s.trace)
		}
		if st := stages[s.trace]; st != nil {
			st.add(s)
		}
	}
	add := func(r request, fits bool) {
		if !fits {
			out.unfit++
			return
		}
		if route, ok := routes[r.trace]; ok && route >= 0 && route < longestRequest {
			r.route = route
		}
		out.requests = append(out.requests, r)
	}
	for _, s := range spans {
		if s.name == nameRequest {
			add(requestOfVLLM(s))
		}
	}
	for _, trace := range order {
		add(stages[trace].request())
	}
	return out
}

func requestOfVLLM(s span) (request, bool) {
	r := newRequest(s)
	r.queue, r.prefill, r.decode = s.number(keyQueue), s.number(keyPrefill), s.number(keyDecode)
	if first := s.number(keyFirst); math.IsNaN(r.prefill) {
		r.prefill = first - r.queue
	}
	if math.IsNaN(r.decode) {
		r.decode = r.whole - s.number(keyFirst)
	}
	return r, r.fits()
}

func newRequest(s span) request {
	r := request{
		trace: s.trace, end: s.start.Add(s.duration), route: math.NaN(), whole: s.number(keyWhole), from: placeOf(s),
		prompt: tokens(s.number(keyPrompt)), output: tokens(s.number(keyOutput)), cached: tokens(s.number(keyCached)),
	}
	if math.IsNaN(r.whole) {
		r.whole = s.duration.Seconds()
	}
	return r
}

// tokens returns n, or NaN if n cannot be a number of tokens.
func tokens(n float64) float64 {
	if !(n >= 0 && n < 1e9) {
		return math.NaN()
	}
	return n
}

// longestRequest is the longest plausible request, in seconds.
const longestRequest = 24 * 60 * 60

// fits reports whether a request's times are present, valid, and not longer than the request. Other
// engines write the same attribute names in other units. A request that ended before its first
// token has invalid times.
func (r request) fits() bool {
	for _, t := range []float64{r.queue, r.prefill, r.decode} {
		if math.IsNaN(t) || math.IsInf(t, 0) || t < 0 {
			return false
		}
	}
	sum := r.queue + r.prefill + r.decode
	return sum > 0 && sum <= 1.1*r.whole+0.1 && r.whole < longestRequest
}

// A stage collects the spans of one SGLang trace.
type stage struct {
	root                 *span
	queue, prefill       time.Duration
	hasQueue, hasPrefill bool
}

// isSGLang reports whether SGLang wrote the span.
func isSGLang(s span) bool {
	return s.text(keyModule) == moduleSGLang || s.name == nameWaiting || s.name == namePrefill
}

// add adds a span. Every rank of a parallel group writes the same stage; the slowest counts. If
// prefill and decode run on different workers, the request has two roots, and the decoding one
// counts.
func (st *stage) add(s span) {
	switch {
	case s.text(keyModule) == moduleSGLang:
		if st.root == nil || s.number(keyOutput) > st.root.number(keyOutput) || math.IsNaN(st.root.number(keyDecode)) {
			st.root = &s
		}
	case s.name == nameWaiting:
		st.queue, st.hasQueue = max(st.queue, s.duration), true
	case s.name == namePrefill:
		st.prefill, st.hasPrefill = max(st.prefill, s.duration), true
	}
}

func (st *stage) request() (request, bool) {
	if st.root == nil || !st.hasQueue || !st.hasPrefill {
		return request{}, false
	}
	r := newRequest(*st.root)
	r.queue, r.prefill, r.decode = st.queue.Seconds(), st.prefill.Seconds(), st.root.number(keyDecode)
	return r, r.fits()
}
