package lab

import "time"

// The faults in the clients' requests, cancellations and retries.
const (
	TrafficSurge        = "traffic_surge"
	RetryStorm          = "retry_storm"
	LongContextBurst    = "long_context_burst"
	DecodeSaturation    = "decode_saturation"
	ClientCancellations = "client_cancellations"
)

var demandFaults = []string{TrafficSurge, RetryStorm, LongContextBurst, DecodeSaturation, ClientCancellations}

// demand sets the scenario if the fault is one of demandFaults, and reports whether it is.
func (s *Scenario) demand(f *Fault) bool {
	switch f.Name {
	case TrafficSurge:
		s.Story = "Traffic is more than four times that of an hour ago, with the same kind of requests. All " +
			"workers fill up alike."
		s.Config.Workload = Workload{Patience: 60 * time.Second}
		f.Ramp = time.Minute
	case RetryStorm:
		s.Story = "A new client release cancels after 14 seconds and retries nine times. The workers compute " +
			"answers that no client waits for."
		s.Config.Workload = Workload{Rate: 3.4}
	case LongContextBurst:
		s.Story = "A few clients send whole repositories of 24,000 tokens. Their contexts fill the KV cache, " +
			"and the request rate does not change."
		s.Config.Workload = Workload{Patience: time.Minute, Timeout: 10 * time.Minute}
	case DecodeSaturation:
		s.Story = "Answers get much longer on workers with memory for a thousand streams. No request waits for " +
			"the first token, but every token is slower."
		s.Config.GPUsPerWorker = 4
		s.Config.Cost.MemoryBytes = 4 * 141e9 // of an H200
		s.Config.Engine.MaxNumSeqs = 1024
		s.Config.Workload = Workload{Rate: 10, Prompt: Lengths{Mean: 300, Sigma: 0.5},
			Output: Lengths{Mean: 500, Sigma: 0.5}, GroupTokens: 128, Timeout: 10 * time.Minute}
	case ClientCancellations:
		s.Story = "A new client release cancels most answers halfway. The pool is as fast as before."
	default:
		return false
	}
	return true
}

// shapeDemand changes the traffic if the fault is one of demandFaults.
func (a *activeFault) shapeDemand(w *Workload, level float64) {
	switch a.Name {
	case TrafficSurge:
		w.Rate *= 1 + 3.4*level
	case RetryStorm:
		if level > 0 {
			w.Timeout = min(w.Timeout, 14*time.Second)
			w.Retries = max(w.Retries, int(9*level))
		}
	case LongContextBurst:
		w.LongShare = min(1, 0.16*level)
		w.Long = Lengths{Mean: 24000, Sigma: 0.05}
	case DecodeSaturation:
		w.Output.Mean *= 1 + 4.5*level
	case ClientCancellations:
		w.CancelShare = min(1, w.CancelShare+0.85*level)
	}
}
