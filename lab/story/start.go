package story

import (
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
)

var coldStart = []Story{
	{Name: "scale-out",
		Text: "An autoscaler adds two workers for the morning. They compile kernels for eight minutes, and the others serve as before.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) {
			s.Loading(480 * s.Severity)
			s.Scale(2)
		}}},
	{Name: "slow-rollout",
		Text:  "A rollout replaces one worker at a time, without a spare. Each new one compiles kernels for five minutes.",
		fleet: func(s *drill.Scenario) { s.Config.MaxSurge = -1 },
		plot: &lab.Plot{Begin: func(s *lab.Stage) {
			s.Loading(300 * s.Severity)
			s.Restart()
		}}},
}

// noCacheMemory is vLLM's error if no request of the greatest length fits the KV cache.
const noCacheMemory = "ValueError: To serve at least one request with the models's max seq len (262144), (80.00 GiB KV cache is " +
	"needed, which is larger than the available KV cache memory (57.18 GiB). Try increasing `gpu_memory_utilization` or decreasing " +
	"`max_model_len` when initializing the engine.\n"

var modelLoadFailure = []Story{
	{Name: "greater-length",
		Text: "A rollout raises max_model_len to 262,144. The KV cache does not hold one such request, and every new process ends.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Restart() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.LoadError = noCacheMemory
			}
		}}},
	{Name: "missing-secret",
		Text: "A rollout takes the hub's token from a Secret that does not exist there. The kubelet cannot create the container.",
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Restart() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.Waits = "CreateContainerConfigError"
			}
		}}},
}

var badRollout = []Story{
	{Name: "slow-build",
		Text:  "A new image runs without CUDA graphs. Its workers are ready and fail no request, but every token takes ten times as long.",
		fleet: func(s *drill.Scenario) { s.Config.MinReady = 2 * time.Minute },
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Upgrade() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.Slow = 1 + 9*s.Level
			}
		}}},
	{Name: "crashing-build",
		Text:  "A new image crashes after it has served for some 75 seconds. Readiness passes before, so the rollout goes on.",
		fleet: func(s *drill.Scenario) { s.Config.MinReady = time.Minute },
		plot: &lab.Plot{Begin: func(s *lab.Stage) { s.Upgrade() }, Tick: func(s *lab.Stage) {
			for _, w := range s.Fresh() {
				w.CrashesAfter = 75
			}
		}}},
}
