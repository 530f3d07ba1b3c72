package drill

import (
	"math/rand/v2"
	"time"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

// A variation is the pool in which another way of a fault shows.
type variation struct {
	story string
	usual traffic.Workload // before the fault; without a rate: that of the first story, as its engines
	eng   engine.Settings
}

// drawn returns the story of a seed. Seeds below 100 tell the first one.
func drawn(fault string, seed uint64) int {
	if seed < 100 {
		return 0
	}
	return rand.New(rand.NewPCG(seed, 5)).IntN(lab.OwnStories(fault))
}

// tell sets the fault's story.
func (s *Scenario) tell(f *lab.Fault, story int) {
	f.Story = story
	if of := variations[f.Name]; story >= 1 && story <= len(of) {
		v := &of[story-1]
		if s.Story = v.story; v.usual.Rate > 0 {
			s.Config.Workload, s.Config.Engine = v.usual, v.eng
		}
	}
}

// variations lists the other stories of faults, as many and in the order as in lab.
var variations = map[string][]variation{
	lab.KVExhaustion: {
		{"A new client asks for answers of 6,000 tokens. Admission counts requests and not tokens, and the KV cache fills.",
			traffic.Workload{Rate: 4.4, Patience: time.Minute, Timeout: 10 * time.Minute, Retries: 1}, engine.Settings{}},
		{"The memory manager takes most of each KV cache for another model. The usual requests no longer fit.",
			traffic.Workload{Rate: 4.4, Patience: time.Minute, Retries: 1}, engine.Settings{}},
	},
	lab.ConcurrencyCap: {
		{"max_num_seqs is 8. Answers get twice as long, and requests keep their slots for longer.",
			traffic.Workload{Rate: 1.1, Output: traffic.Lengths{Mean: 800, Sigma: 0.6}, Patience: time.Minute, Retries: -1},
			engine.Settings{MaxNumSeqs: 8}},
		{"A controller lowers the live limit of running requests to five. The usual requests queue.",
			traffic.Workload{}, engine.Settings{}},
	},
	lab.PrefillStarvation: {{"Prefill falls back to a slow attention kernel. Decoding is as fast as before.",
		traffic.Workload{Rate: 3.5, Output: traffic.Lengths{Mean: 300, Sigma: 0.5}, Patience: time.Minute, Retries: -1},
		engine.Settings{MaxNumBatchedTokens: 256}}},
	lab.GPUUnderutilization: {{"The pool is for a model that hardly anyone calls. Its GPUs have idled for hours.",
		traffic.Workload{Rate: 0.004, Output: traffic.Lengths{Mean: 120, Sigma: 0.5}}, engine.Settings{}}},
	lab.TrafficSurge: {{"A launch brings two and a half times the usual requests. They reach max_num_seqs of 16 first.",
		traffic.Workload{Rate: 2, Patience: time.Minute, Timeout: 5 * time.Minute}, engine.Settings{MaxNumSeqs: 16}}},
	lab.RetryStorm: {{"A timeout of ten seconds repeats slow requests eight times.", traffic.Workload{}, engine.Settings{}}},
	lab.LongContextBurst: {
		{"Retrieval adds seven times as much text to each prompt. Requests queue behind their prefill.",
			traffic.Workload{Rate: 2.3, Output: traffic.Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute}, engine.Settings{}},
		{"A fifth of the prompts become documents of 20,000 tokens. The KV cache has room, and short requests wait behind them.",
			traffic.Workload{Rate: 3, Output: traffic.Lengths{Mean: 150, Sigma: 0.5}, Patience: time.Minute},
			engine.Settings{MaxNumBatchedTokens: 16384}},
	},
	lab.PrefixCacheCollapse: {{"Each tenant gets a system prompt of its own. The cache holds few of them.",
		traffic.Workload{}, engine.Settings{}}},
}
