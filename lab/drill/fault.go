package drill

import (
	"time"

	"paramedic/lab"
	"paramedic/lab/traffic"
)

// machine sets the scenario of a machine's fault.
func (s *Scenario) machine() {
	switch s.Name {
	case lab.GPUThrottle:
		s.Story = "A fan fails. One GPU gets so hot that its clock falls to a quarter and slows its worker. The " +
			"other GPUs are cool."
		s.Config.Workload = traffic.Workload{Rate: 4.5}
	case lab.NodeFailure:
		s.Story = "A machine with two of the four workers loses power. The others carry the load until " +
			"replacements start elsewhere."
	case lab.OOMKilled:
		s.Story = "Workers use 18 of 32 GiB of memory. Then one worker gets videos: decoding fills the memory " +
			"within seconds, and the kernel kills the worker."
		s.Config.MemoryLimit = 32 << 30
	case lab.CUDAOOM:
		s.Story = "gpu_memory_utilization is 0.92 with 8,192 batched tokens. A few clients request the " +
			"probabilities of long prompts, and the logits do not fit."
		s.Config.Engine.GPUMemoryUtilization, s.Config.Engine.MaxNumBatchedTokens = 0.92, 8192
	case lab.GPUMemoryLeak:
		s.Story = "One engine takes a little more GPU memory with every request and never frees it. Only 6 GiB " +
			"are free beside its KV cache."
	}
}

// demand sets the scenario if the fault is one of the traffic, and reports whether it is.
func (s *Scenario) demand(f *lab.Fault) bool {
	switch f.Name {
	case lab.TrafficSurge:
		s.Story = "Traffic is more than four times that of an hour ago, with the same kind of requests. All " +
			"workers fill up alike."
		s.Config.Workload = traffic.Workload{Patience: 60 * time.Second}
		f.Ramp = time.Minute
	case lab.RetryStorm:
		s.Story = "A new client release cancels after 14 seconds and retries nine times. The workers compute " +
			"answers that no client waits for."
		s.Config.Workload = traffic.Workload{Rate: 3.4}
	case lab.LongContextBurst:
		s.Story = "A few clients send whole repositories of 24,000 tokens. Their contexts fill the KV cache, " +
			"and the request rate does not change."
		s.Config.Workload = traffic.Workload{Patience: time.Minute, Timeout: 10 * time.Minute}
	case lab.DecodeSaturation:
		s.Story = "Answers get much longer on workers with memory for a thousand streams. No request waits for " +
			"the first token, but every token is slower."
		s.Config.GPUsPerWorker = 4
		s.Config.Cost.MemoryBytes = 4 * 141e9 // of an H200
		s.Config.Engine.MaxNumSeqs = 1024
		s.Config.Workload = traffic.Workload{Rate: 10, Prompt: traffic.Lengths{Mean: 300, Sigma: 0.5},
			Output: traffic.Lengths{Mean: 500, Sigma: 0.5}, GroupTokens: 128, Timeout: 10 * time.Minute}
	case lab.ClientCancellations:
		s.Story = "A new client release cancels most answers halfway. The pool is as fast as before."
	default:
		return false
	}
	return true
}

// cluster sets the scenario if the fault is one in how workers start, and reports whether it is.
func (s *Scenario) cluster(f *lab.Fault) bool {
	switch f.Name {
	case lab.ColdStart:
		s.Story = "Half of the machines are replaced. The new workers load the weights for ten minutes, and the " +
			"others carry the load."
	case lab.ModelLoadFailure:
		s.Story = "A rollout names an image that does not exist. Its first worker never starts, and the old " +
			"workers still serve."
		if s.Config.Seed%2 == 1 {
			s.Story = "The token for the model hub has expired. A worker on a new machine cannot load its model and " +
				"crashes again and again."
		}
	case lab.BadRollout:
		s.Story = "A new image fails two of five requests. Its workers are ready, so the rollout continues, one " +
			"worker every few minutes."
		s.Config.MinReady = 4 * time.Minute
	default:
		return false
	}
	return true
}
