package traffic

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"paramedic/lab/engine"
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

// WithDefaults returns the workload with the defaults in place of zeros. The traffic begins with
// that of the time of day of a moment.
func (w Workload) WithDefaults(day time.Time) Workload {
	w.Rate = cmp.Or(w.Rate, 2.3)
	w.Prompt = cmp.Or(w.Prompt, Lengths{Mean: 1000, Sigma: 0.5})
	w.Output = cmp.Or(w.Output, Lengths{Mean: 1000, Sigma: 0.6})
	w.Groups = cmp.Or(w.Groups, 8)
	w.GroupTokens = cmp.Or(w.GroupTokens, 512)
	w.GroupShare = cmp.Or(w.GroupShare, 0.9)
	w.Patience = cmp.Or(w.Patience, 20*time.Second)
	w.Timeout = cmp.Or(w.Timeout, 150*time.Second)
	w.Retries = cmp.Or(w.Retries, 2)
	w.clock = float64(60*day.Hour() + day.Minute())
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

// RateAt returns the arrival rate in requests a second, at a time since the start in seconds.
func (w Workload) RateAt(t float64) float64 {
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

// Draw returns the next request. With its answer it has at most maxLen tokens.
func (w Workload) Draw(rng *rand.Rand, maxLen int) *engine.Request {
	r := &engine.Request{Group: -1, Attempt: 1}
	lengths := w.Prompt
	if w.LongShare > 0 && rng.Float64() < w.LongShare {
		lengths, r.Long, r.Scored = w.Long, true, w.LongScore
	}
	r.Prompt = max(lengths.draw(rng, maxLen*3/4), 8)
	lengths = w.Output
	if w.WordyShare > 0 && rng.Float64() < w.WordyShare {
		lengths, r.Wordy = w.Wordy, true
	}
	r.Output = lengths.draw(rng, maxLen-r.Prompt)
	r.MaxTokens = maxLen - r.Prompt
	if rng.Float64() < 0.15 {
		r.MaxTokens = r.Output // the client's limit cuts the answer
	}
	if w.Groups > 0 && rng.Float64() < w.GroupShare {
		r.Group = rng.IntN(w.Groups)
	}
	if w.HotShare > 0 && rng.Float64() < w.HotShare {
		r.Group = 0
	}
	if w.CancelShare > 0 && rng.Float64() < w.CancelShare {
		r.CancelAt = math.Max(1, cmp.Or(w.CancelAfter, float64(r.Output)/2))
	}
	return r
}
