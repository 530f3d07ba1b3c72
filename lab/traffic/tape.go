package traffic

import (
	"math"

	"paramedic/lab/engine"
)

// A Tape is a fleet's position in a trace. The zero value is its start.
type Tape struct {
	at     float64 // the fleet's time of pos
	pos    float64 // seconds of the trace played so far, over all rounds
	n      int     // arrivals played so far
	length float64 // of one round
	rate   float64 // of the trace
}

// Next returns the time of the next arrival. The trace was played at the rate was since the last
// call, and is played at rate from now on. Times are seconds since the fleet's start.
func (p *Tape) Next(t Trace, now, was, rate float64) float64 {
	if p.length == 0 {
		p.length, p.rate = t.length(), t.Rate()
	}
	p.pos += (now - p.at) * was / p.rate
	p.at = now
	if rate <= 0 {
		return math.Inf(1)
	}
	due := float64(p.n/len(t))*p.length + t[p.n%len(t)].At.Seconds()
	return now + max(0, due-p.pos)*p.rate/rate
}

// Take gives a request the lengths of the next arrival of mix.Trace, scaled as faults scaled the
// base workload to mix. With its answer it has at most maxLen tokens.
func (p *Tape) Take(r *engine.Request, mix, base *Workload, maxLen int) {
	a := mix.Trace[p.n%len(mix.Trace)]
	p.n++
	if !r.Long {
		r.Prompt = min(max(8, int(float64(a.Prompt)*mix.Prompt.Mean/base.Prompt.Mean)), maxLen*3/4)
	}
	scaled := r.Output
	if !r.Wordy {
		r.Output = min(max(1, int(float64(a.Output)*mix.Output.Mean/base.Output.Mean)), maxLen-r.Prompt)
	}
	if r.MaxTokens == scaled {
		r.MaxTokens = r.Output
	} else {
		r.MaxTokens = maxLen - r.Prompt
	}
	if r.CancelAt > 0 {
		r.CancelAt = math.Max(1, float64(r.Output)/2)
	}
	switch {
	case a.Group < 0:
	case a.Shared == 0:
		r.Group = -1
	case r.Group >= 0 || mix.GroupShare >= base.GroupShare: // otherwise a fault ended the sharing
		r.Group, r.Shared = a.Group, a.Shared
	}
}
