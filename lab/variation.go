package lab

import (
	"math/rand/v2"
	"time"
)

// A variation is another way in which a fault can happen. It replaces what the first story does to
// the traffic and the engines.
type variation struct {
	story string
	set   func(c *Config)                  // nil: the fleet of the first story
	shape func(w *Workload, level float64) // nil: the traffic stays
	tune  func(e *engine, was Engine, level float64)
}

// plainSeeds is the number of seeds that tell each fault's first story. The others draw one.
const plainSeeds = 100

// draw chooses the fault's story.
func (s *Scenario) draw(f *Fault) {
	if s.Config.Seed >= plainSeeds {
		f.Story = rand.New(rand.NewPCG(s.Config.Seed, 5)).IntN(len(variations[f.Name]) + 1)
	}
	if v := f.variation(); v != nil {
		if s.Story = v.story; v.set != nil {
			v.set(&s.Config)
		}
	}
}

// variation returns the fault's other story, or nil if it is the first one.
func (x Fault) variation() *variation {
	if others := variations[x.Name]; x.Story > 0 && x.Story <= len(others) {
		return &others[x.Story-1]
	}
	return nil
}

// tune changes the settings of all engines, without a restart, and restores them at level zero.
func (f *Fleet) tune(change func(e *engine, was Engine, level float64), level float64) {
	for _, w := range f.workers {
		if e := w.eng; e != nil {
			was := f.engineOf(w.args)
			e.budget, e.maxSeqs, e.cost.PerPrefillToken = was.MaxNumBatchedTokens, was.MaxNumSeqs, f.cfg.Cost.PerPrefillToken
			if level > 0 {
				change(e, was, level)
			}
		}
	}
}

func workload(w Workload) func(*Config) { return func(c *Config) { c.Workload = w } }

var variations = map[string][]variation{
	KVExhaustion: {
		{"A new client asks for answers of 6,000 tokens. Admission counts requests and not tokens, and the KV cache fills.",
			workload(Workload{Rate: 4.4, Timeout: 10 * time.Minute}), func(w *Workload, level float64) {
				w.WordyShare, w.Wordy = min(1, 0.3*level), Lengths{Mean: 6000, Sigma: 0.1}
			}, nil},
		{"The memory manager takes most of each KV cache for another model. The usual requests no longer fit.",
			nil, nil, func(e *engine, was Engine, level float64) {
				e.kv.shrink(int(float64(was.blocks(e.cost)) * min(1, 0.15/level)))
			}},
	},
	ConcurrencyCap: {
		{"max_num_seqs is 8. Answers get twice as long, and requests keep their slots for longer.",
			workload(Workload{Rate: 1.1, Output: Lengths{Mean: 800, Sigma: 0.6}, Patience: time.Minute, Timeout: 5 * time.Minute}),
			func(w *Workload, level float64) { w.Output.Mean *= 1 + level }, nil},
		{"A controller lowers the live limit of running requests to five. The usual requests queue.",
			nil, nil, func(e *engine, _ Engine, level float64) { e.maxSeqs = max(1, int(5/level)) }},
	},
	PrefillStarvation: {
		{"Prefill falls back to a slow attention kernel. Decoding is as fast as before.",
			workload(Workload{Rate: 2.3, Output: Lengths{Mean: 300, Sigma: 0.5}, Patience: time.Minute}), nil,
			func(e *engine, _ Engine, level float64) { e.cost.PerPrefillToken *= 1 + 10*level }},
	},
	GPUUnderutilization: {
		{"The pool is for a model that hardly anyone calls. Its GPUs have idled for hours.",
			workload(Workload{Rate: 0.004, Output: Lengths{Mean: 120, Sigma: 0.5}}), nil, nil},
	},
	TrafficSurge: {
		{"A launch brings two and a half times the usual requests. They reach max_num_seqs of 16 first.",
			func(c *Config) {
				c.Engine.MaxNumSeqs, c.Workload = 16, Workload{Rate: 2, Patience: time.Minute, Timeout: 5 * time.Minute}
			}, func(w *Workload, level float64) { w.Rate *= 1 + 1.5*level }, nil},
	},
	RetryStorm: {
		{"The gateway's new timeout of 12 seconds repeats each slow request six times.", nil, func(w *Workload, level float64) {
			if level > 0 {
				w.Timeout, w.Retries = min(w.Timeout, 12*time.Second), max(w.Retries, int(6*level))
			}
		}, nil},
	},
	LongContextBurst: {
		{"Retrieval adds seven times as much text to each prompt. Requests queue behind their prefill.",
			workload(Workload{Rate: 2.3, Output: Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute}),
			func(w *Workload, level float64) { w.Prompt.Mean *= 1 + 6*level }, nil},
		{"A fifth of the prompts become documents of 20,000 tokens. The KV cache has room, and short requests wait " +
			"behind them.", func(c *Config) {
			c.Engine.MaxNumBatchedTokens = 16384
			c.Workload = Workload{Rate: 3, Output: Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute}
		}, func(w *Workload, level float64) {
			w.LongShare, w.Long = min(1, 0.2*level), Lengths{Mean: 20000, Sigma: 0.15}
		}, nil},
	},
	PrefixCacheCollapse: {
		{"Each tenant gets a system prompt of its own. The cache holds few of them.", nil,
			func(w *Workload, level float64) { w.Groups += int(4000 * level) }, nil},
	},
}
