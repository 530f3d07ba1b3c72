package story

import (
	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/traffic"
)

var kvLeak = []Story{
	{Name: "lost-acknowledgements",
		Text: "One worker's KV connector misses every fifth acknowledgement. The answers come whole, and their blocks stay held.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			s.Worker().Keeps = 0
			if s.Level > 0 {
				s.Worker().Keeps = max(1, int(10/s.Level)) // the scenario's level is 2
			}
		}}},
	{Name: "long-requests",
		Text: "Requests longer than a connector's buffer never give their blocks back. They are two of a hundred, on every worker.",
		fleet: func(s *drill.Scenario) {
			s.Config.Workload.LongShare, s.Config.Workload.Long = 0.02, traffic.Lengths{Mean: 12000, Sigma: 0.1}
		},
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.KeepsLong = s.Level > 0
			}
		}}},
}

// ncclTimeout is the last line of a rank whose collective never completes.
const ncclTimeout = "torch.distributed.DistBackendError: [Rank 1] Watchdog caught collective operation timeout: " +
	"WorkNCCL(SeqNum=48113, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out.\n"

var engineHang = []Story{
	{Name: "watchdog",
		Text: "A collective of one worker never completes. After ten minutes the watchdog kills the process, and its successor serves.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Worker().Hang() }, Tick: func(s *lab.Stage) {
			if s.Passes(600) && s.Worker().Hangs() {
				s.Worker().Crash("Error", 134, ncclTimeout)
			}
		}}},
	{Name: "poison-request",
		Text: "A request that fits no KV cache stops the engine that gets it. Its client repeats it, and three workers hang in turn.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for i, w := range s.Workers() {
				if i < 3 && s.Passes(80*float64(i)) {
					w.Hang()
				}
			}
		}}},
}

var qualityRegression = []Story{
	{Name: "strict-prompt",
		Text: "The chat service adds a system prompt that is too strict, without a rollout. A third of the answers refuse.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) {
			for _, w := range s.Workers() {
				w.Refuses = min(0.9, 0.3*s.Level)
			}
		}}},
	{Name: "damaged-weights",
		Text: "An error that no counter saw damages the weights in one worker's GPU. Half of that worker's answers are empty.",
		plot: &lab.Plot{Tick: func(s *lab.Stage) { s.Worker().Empties = min(0.9, 0.5*s.Level) }}},
}
