package lab

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"
)

// A Workload describes the requests of all clients. Arrivals are a Poisson process unless Trace is
// set.
type Workload struct {
	Rate   float64 // requests a second over the pool; default 2.3
	Prompt Lengths // default mean 1000, sigma 0.5
	Output Lengths // default mean 1000, sigma 0.6

	// Groups of prompts share their first GroupTokens tokens (a system prompt, a document);
	// GroupShare of the requests belong to one. Defaults: 8 groups, 512 tokens, 0.9.
	Groups      int
	GroupTokens int
	GroupShare  float64
	HotShare    float64 // share of the requests that belong to the first group, besides

	LongShare float64 // share of the requests with prompts of Long
	Long      Lengths
	LongScore bool // they request prompt_logprobs, too

	WordyShare float64 // share of the requests with answers of Wordy
	Wordy      Lengths

	Daily float64 // relative change of the rate over a day: lowest at 03:00, highest at 15:00
	Trace Trace   // recorded requests, played at Rate; nil: a Poisson process

	Patience    time.Duration // a client cancels without a first token after this; default 20 s
	Timeout     time.Duration // or without the whole answer after this; default 150 s
	Retries     int           // of a failed or timed-out request; default 2, negative: none
	CancelShare float64       // share of the requests that are cancelled half-way through their answer
	CancelAfter float64       // tokens after which they are cancelled instead; 0: half-way

	clock float64 // minutes after midnight at the fleet's start

	// On and Off are the lengths of bursts and of the pauses between them. Zero Off: no pauses.
	On, Off time.Duration
}

// Lengths is a log-normal distribution of token counts with the given mean.
type Lengths struct {
	Mean, Sigma float64
	Max         int
}

func (w Workload) withDefaults() Workload {
	setDefault(&w.Rate, 2.3)
	setDefault(&w.Prompt, Lengths{Mean: 1000, Sigma: 0.5})
	setDefault(&w.Output, Lengths{Mean: 1000, Sigma: 0.6})
	setDefault(&w.Groups, 8)
	setDefault(&w.GroupTokens, 512)
	setDefault(&w.GroupShare, 0.9)
	setDefault(&w.Patience, 20*time.Second)
	setDefault(&w.Timeout, 150*time.Second)
	setDefault(&w.Retries, 2)
	return w
}

func (l Lengths) draw(rng *rand.Rand, limit int) int {
	mu := math.Log(max(l.Mean, 1)) - l.Sigma*l.Sigma/2
	n := int(math.Exp(mu + l.Sigma*rng.NormFloat64()))
	if l.Max > 0 {
		limit = min(limit, l.Max)
	}
	return min(max(n, 1), limit)
}

// rateAt returns the arrival rate at a time since the start.
func (w Workload) rateAt(t float64) float64 {
	rate := w.Rate
	if w.Daily != 0 { // in steps of a minute, because each change draws a new arrival
		rate *= max(0, 1-w.Daily*math.Cos(2*math.Pi*(math.Floor(t/60)+w.clock-3*60)/1440))
	}
	if w.Off <= 0 {
		return rate
	}
	on, period := w.On.Seconds(), (w.On + w.Off).Seconds()
	if math.Mod(t, period) < on {
		return rate
	}
	return 0
}

// draw returns the next request.
func (w Workload) draw(rng *rand.Rand, maxLen int) *request {
	r := &request{group: -1, attempt: 1}
	lengths := w.Prompt
	if w.LongShare > 0 && rng.Float64() < w.LongShare {
		lengths, r.long, r.scored = w.Long, true, w.LongScore
	}
	r.prompt = max(lengths.draw(rng, maxLen*3/4), 8)
	lengths = w.Output
	if w.WordyShare > 0 && rng.Float64() < w.WordyShare {
		lengths, r.wordy = w.Wordy, true
	}
	r.output = lengths.draw(rng, maxLen-r.prompt)
	r.maxTokens = maxLen - r.prompt
	if rng.Float64() < 0.15 {
		r.maxTokens = r.output // the client's limit cuts the answer
	}
	if w.Groups > 0 && rng.Float64() < w.GroupShare {
		r.group = rng.IntN(w.Groups)
	}
	if w.HotShare > 0 && rng.Float64() < w.HotShare {
		r.group = 0
	}
	if w.CancelShare > 0 && rng.Float64() < w.CancelShare {
		r.cancelAt = math.Max(1, cmp.Or(w.CancelAfter, float64(r.output)/2))
	}
	return r
}
