package traces

import (
	"math"
	"time"
)

// A request is one traced request on one engine. Times are in seconds; what the engine does not
// write is NaN.
type request struct {
	trace                  string
	end                    time.Time
	queue, prefill, decode float64
	route, whole           float64
	prompt, output, cached float64
	from                   place
}

// A finding is what spans tell.
type finding struct {
	requests []request
	unfit    int // engines' spans without times that fit into them
}

// requestsOf makes requests of spans: of vLLM's one by one, of SGLang's trace by trace.
func requestsOf(spans []span) finding {
	var out finding
	routes, stages := map[string]float64{}, map[string]*stage{}
	var order []string
	for _, s := range spans {
		if s.name == nameRouting {
			routes[s.trace] += s.duration.Seconds()
		}
		if st := stages[s.trace]; st == nil && stageOf(s) {
			stages[s.trace] = &stage{}
			order = append(order, s.trace)
		}
		if st := stages[s.trace]; st != nil {
			st.take(s)
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
	r := request{trace: s.trace, end: s.start.Add(s.duration), route: math.NaN(), whole: s.number(keyWhole), from: placeOf(s),
		prompt: tokens(s.number(keyPrompt)), output: tokens(s.number(keyOutput)), cached: tokens(s.number(keyCached))}
	if math.IsNaN(r.whole) {
		r.whole = s.duration.Seconds()
	}
	return r
}

// tokens is a number of tokens, or NaN for what cannot be one.
func tokens(n float64) float64 {
	if !(n >= 0 && n < 1e9) {
		return math.NaN()
	}
	return n
}

// longestRequest bounds what is taken for a request's time, in seconds.
const longestRequest = 24 * 60 * 60

// fits says whether a request's times are there, are times, and fit into the request. Other engines
// write the same names in other units, and a request that ended before its first token has nonsense
// for its times.
func (r request) fits() bool {
	for _, t := range []float64{r.queue, r.prefill, r.decode} {
		if math.IsNaN(t) || math.IsInf(t, 0) || t < 0 {
			return false
		}
	}
	sum := r.queue + r.prefill + r.decode
	return sum > 0 && sum <= 1.1*r.whole+0.1 && r.whole < longestRequest
}

// A stage collects the spans of one of SGLang's traces.
type stage struct {
	root           *span
	queue, prefill time.Duration
	waited, filled bool
}

// stageOf says whether a span is of SGLang.
func stageOf(s span) bool {
	return s.text(keyModule) == moduleSGLang || s.name == nameWaiting || s.name == namePrefill
}

// take adds a span. Every rank of a parallel group writes the same stage: the slowest counts. Of
// the two roots of a request that prefills in one place and decodes in another, the one that
// decodes is the request.
func (st *stage) take(s span) {
	switch {
	case s.text(keyModule) == moduleSGLang:
		if st.root == nil || s.number(keyOutput) > st.root.number(keyOutput) || math.IsNaN(st.root.number(keyDecode)) {
			st.root = &s
		}
	case s.name == nameWaiting:
		st.queue, st.waited = max(st.queue, s.duration), true
	case s.name == namePrefill:
		st.prefill, st.filled = max(st.prefill, s.duration), true
	}
}

func (st *stage) request() (request, bool) {
	if st.root == nil || !st.waited || !st.filled {
		return request{}, false
	}
	r := newRequest(*st.root)
	r.queue, r.prefill, r.decode = st.queue.Seconds(), st.prefill.Seconds(), st.root.number(keyDecode)
	return r, r.fits()
}
