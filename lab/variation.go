package lab

import (
	"time"

	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

// A variation is another way in which a fault can happen. It replaces what the first story does to
// the traffic and the engines.
type variation struct {
	shape func(w *traffic.Workload, level float64) // nil: the traffic stays
	tune  func(e *engine.Engine, level float64)
}

// OwnStories returns the number of stories that the lab has of a fault by itself.
func OwnStories(fault string) int { return len(variations[fault]) + 1 }

// variation returns the fault's other story, or nil if it is the first one.
func (x Fault) variation() *variation {
	if x.Story < 1 || x.Story > len(variations[x.Name]) {
		return nil
	}
	return &variations[x.Name][x.Story-1]
}

// tune changes the settings of all engines, without a restart, and restores them at level zero.
func (f *Fleet) tune(change func(e *engine.Engine, level float64), level float64) {
	for _, w := range f.workers {
		e, was := w.eng, f.settings(w)
		if e == nil {
			continue
		}
		e.Budget, e.MaxSeqs, e.Cost.PerPrefillToken = was.MaxNumBatchedTokens, was.MaxNumSeqs, f.cfg.Cost.PerPrefillToken
		if level > 0 {
			change(e, level)
		}
	}
}

// variations lists the other stories of faults. The pools in which they show are in lab/drill.
var variations = map[string][]variation{
	KVExhaustion: {
		{shape: func(w *traffic.Workload, level float64) {
			w.WordyShare, w.Wordy = min(1, 0.3*level), traffic.Lengths{Mean: 6000, Sigma: 0.1}
		}},
		{tune: func(e *engine.Engine, level float64) { e.Shrink(min(1, 0.15/level)) }},
	},
	ConcurrencyCap: {
		{shape: func(w *traffic.Workload, level float64) { w.Output.Mean *= 1 + level }},
		{tune: func(e *engine.Engine, level float64) { e.MaxSeqs = max(1, int(5/level)) }},
	},
	PrefillStarvation:   {{tune: func(e *engine.Engine, level float64) { e.Cost.PerPrefillToken *= 1 + 6*level }}},
	GPUUnderutilization: {{}},
	TrafficSurge:        {{shape: func(w *traffic.Workload, level float64) { w.Rate *= 1 + 1.5*level }}},
	RetryStorm: {{shape: func(w *traffic.Workload, level float64) {
		w.Retries, w.Timeout = max(w.Retries, int(8*level)), min(w.Timeout, time.Duration(10e9/max(level, 0.01)))
	}}},
	LongContextBurst: {
		{shape: func(w *traffic.Workload, level float64) { w.Prompt.Mean *= 1 + 6*level }},
		{shape: func(w *traffic.Workload, level float64) {
			w.LongShare, w.Long = min(1, 0.2*level), traffic.Lengths{Mean: 20000, Sigma: 0.15}
		}},
	},
	PrefixCacheCollapse: {{shape: func(w *traffic.Workload, level float64) { w.Groups += int(4000 * level) }}},
}
