package story

import (
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

var benignAlert = []Story{
	{Name: "row-remapped",
		Text: "A GPU sets a bad row of its memory aside (Xid 63). No process notices it, and a rule on any Xid fires.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Xid(63, false) }}},
	{Name: "filling-buffer",
		Text: "The workers fill a buffer of 30 GiB in host memory for evicted KV blocks, as configured. A rule expects them to grow on.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.MemoryRate = 0
				if s.Level > 0 && s.Since < 384 {
					w.MemoryRate = 80 << 20
				}
			}
		}}},
}

var decodeSaturation = []Story{
	{Name: "fewer-workers",
		Text: "An autoscaler keeps the night's two workers in the morning. Each runs more than twice the streams, with memory for more.",
		fleet: func(s *drill.Scenario) {
			s.Config.Workload.Rate, s.Config.Workload.Output = 8.5, traffic.Lengths{Mean: 2000, Sigma: 0.5}
		},
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Scale(-2) }}},
	{Name: "reasoning",
		Text: "A quarter of the requests turn reasoning on. Their answers have 6,000 tokens, the others are as short as ever.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Traffic.WordyShare, s.Traffic.Wordy = min(1, 0.27*s.Level), traffic.Lengths{Mean: 6000, Sigma: 0.3}
		}}},
}

var clientCancellations = []Story{
	{Name: "eight-seconds",
		Text: "A new client release gives every answer eight seconds, and does not retry. The pool is as fast as before.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			if s.Level > 0 {
				s.Traffic.Timeout, s.Traffic.Retries = time.Duration(8e9/s.Level), -1
			}
		}}},
	{Name: "first-line",
		Text: "Agents read only the first line of most answers, and then hang up. The workers have less to do than before.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Traffic.CancelShare, s.Traffic.CancelAfter = min(1, 0.85*s.Level), 20
		}}},
}

var trafficSurge = []Story{
	{Name: "waves",
		Text: "A scheduler starts its jobs every three minutes. For 70 seconds six times the usual requests come, and then the usual ones.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			if int(s.Since)%180 < 70 {
				s.Traffic.Rate *= 1 + 5*s.Level
			}
		}}},
}

var retryStorm = []Story{
	{Name: "after-a-peak",
		Text: "Clients repeat up to nine times what takes 30 seconds. A short peak starts it, and the repeats keep the pool full.",
		fleet: func(s *drill.Scenario) {
			s.Config.Workload = traffic.Workload{Rate: 3.6, Output: traffic.Lengths{Mean: 800, Sigma: 0.25},
				Timeout: 30 * time.Second, Retries: 9}
		},
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			if s.Since < 90 {
				s.Traffic.Rate *= 1 + 2.8*s.Level
			}
		}}},
}

var prefixCacheCollapse = []Story{
	{Name: "unshared-revision",
		Text:  "A new image adds the request's ID to each block's hash. Its workers find no prefix, and nothing else breaks.",
		fleet: func(s *drill.Scenario) { s.Config.MinReady = 30 * time.Second },
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Upgrade() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.Uncached = true
			}
		}}},
}

var prefillStarvation = []Story{
	{Name: "shared-gpu",
		Text: "An embedding job takes the GPUs' tensor cores. Prefill takes seven times as long; decoding does not need them.",
		fleet: func(s *drill.Scenario) {
			s.Config.Workload = traffic.Workload{Rate: 3.5, Output: traffic.Lengths{Mean: 300, Sigma: 0.5},
				Patience: time.Minute, Retries: -1}
			s.Config.Engine = engine.Settings{MaxNumBatchedTokens: 256}
		},
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.Prefill = 1 + 6*s.Level
				for _, g := range w.GPUs() {
					g.Busy = min(0.6, 0.4*s.Level)
				}
			}
		}}},
}

var gpuUnderutilization = []Story{
	{Name: "moved-away",
		Text:  "The model's traffic moves to another region, and the pool stays. Its GPUs idle.",
		fleet: func(s *drill.Scenario) { s.Length = 30 * time.Minute }, // idle GPUs alert after ten minutes
		plot:  &lab.Plot{Tick: func(s *lab.Stage) { s.Traffic.Rate *= max(0.002, 1-s.Level) }}},
}
