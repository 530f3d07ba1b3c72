package lab

import (
	"math/rand/v2"
	"time"
)

// A variation is another way in which a fault can happen. It replaces what the first story does to
// the traffic and the engines.
type variation struct {
	story string
	usual Workload // before the fault; without a rate: that of the first story, as its engines
	eng   Engine
	shape func(w *Workload, level float64) // nil: the traffic stays
	tune  func(e *engine, level float64)
}

// OwnStories returns the number of stories that the lab has of a fault by itself.
func OwnStories(fault string) int { return len(variations[fault]) + 1 }

// drawn returns the story of a seed. Seeds below 100 tell the first one.
func drawn(fault string, seed uint64) int {
	if seed < 100 {
		return 0
	}
	return rand.New(rand.NewPCG(seed, 5)).IntN(OwnStories(fault))
}

// tell sets the fault's story.
func (s *Scenario) tell(f *Fault, story int) {
	f.Story = story
	if v := f.variation(); v != nil {
		if s.Story = v.story; v.usual.Rate > 0 {
			s.Config.Workload, s.Config.Engine = v.usual, v.eng
		}
	}
}

// variation returns the fault's other story, or nil if it is the first one.
func (x Fault) variation() *variation {
	if x.Story < 1 || x.Story > len(variations[x.Name]) {
		return nil
	}
	return &variations[x.Name][x.Story-1]
}

// tune changes the settings of all engines, without a restart, and restores them at level zero.
func (f *Fleet) tune(change func(e *engine, level float64), level float64) {
	for _, w := range f.workers {
		e, was := w.eng, f.engineOf(w.args)
		if e == nil {
			continue
		}
		e.budget, e.maxSeqs, e.cost.PerPrefillToken = was.MaxNumBatchedTokens, was.MaxNumSeqs, f.cfg.Cost.PerPrefillToken
		if level > 0 {
			change(e, level)
		}
	}
}

var variations = map[string][]variation{
	KVExhaustion: {
		{"A new client asks for answers of 6,000 tokens. Admission counts requests and not tokens, and the KV cache fills.",
			Workload{Rate: 4.4, Patience: time.Minute, Timeout: 10 * time.Minute, Retries: 1}, Engine{},
			func(w *Workload, level float64) {
				w.WordyShare, w.Wordy = min(1, 0.3*level), Lengths{Mean: 6000, Sigma: 0.1}
			}, nil},
		{"The memory manager takes most of each KV cache for another model. The usual requests no longer fit.",
			Workload{Rate: 4.4, Patience: time.Minute, Retries: 1}, Engine{},
			nil, func(e *engine, level float64) { e.kv.shrink(min(1, 0.15/level)) }},
	},
	ConcurrencyCap: {
		{"max_num_seqs is 8. Answers get twice as long, and requests keep their slots for longer.",
			Workload{Rate: 1.1, Output: Lengths{Mean: 800, Sigma: 0.6}, Patience: time.Minute, Retries: -1}, Engine{MaxNumSeqs: 8},
			func(w *Workload, level float64) { w.Output.Mean *= 1 + level }, nil},
		{"A controller lowers the live limit of running requests to five. The usual requests queue.",
			Workload{}, Engine{}, nil, func(e *engine, level float64) { e.maxSeqs = max(1, int(5/level)) }},
	},
	PrefillStarvation: {{"Prefill falls back to a slow attention kernel. Decoding is as fast as before.",
		Workload{Rate: 3.5, Output: Lengths{Mean: 300, Sigma: 0.5}, Patience: time.Minute, Retries: -1}, Engine{MaxNumBatchedTokens: 256},
		nil, func(e *engine, level float64) { e.cost.PerPrefillToken *= 1 + 6*level }}},
	GPUUnderutilization: {{"The pool is for a model that hardly anyone calls. Its GPUs have idled for hours.",
		Workload{Rate: 0.004, Output: Lengths{Mean: 120, Sigma: 0.5}}, Engine{}, nil, nil}},
	TrafficSurge: {{"A launch brings two and a half times the usual requests. They reach max_num_seqs of 16 first.",
		Workload{Rate: 2, Patience: time.Minute, Timeout: 5 * time.Minute}, Engine{MaxNumSeqs: 16},
		func(w *Workload, level float64) { w.Rate *= 1 + 1.5*level }, nil}},
	RetryStorm: {{"A timeout of ten seconds repeats slow requests eight times.", Workload{}, Engine{}, func(w *Workload, level float64) {
		w.Retries, w.Timeout = max(w.Retries, int(8*level)), min(w.Timeout, time.Duration(10e9/max(level, 0.01)))
	}, nil}},
	LongContextBurst: {
		{"Retrieval adds seven times as much text to each prompt. Requests queue behind their prefill.",
			Workload{Rate: 2.3, Output: Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute}, Engine{},
			func(w *Workload, level float64) { w.Prompt.Mean *= 1 + 6*level }, nil},
		{"A fifth of the prompts become documents of 20,000 tokens. The KV cache has room, and short requests wait behind them.",
			Workload{Rate: 3, Output: Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute}, Engine{MaxNumBatchedTokens: 16384},
			func(w *Workload, level float64) {
				w.LongShare, w.Long = min(1, 0.2*level), Lengths{Mean: 20000, Sigma: 0.15}
			}, nil},
	},
	PrefixCacheCollapse: {{"Each tenant gets a system prompt of its own. The cache holds few of them.", Workload{}, Engine{},
		func(w *Workload, level float64) { w.Groups += int(4000 * level) }, nil}},
}
