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
		s.Story = "More than four times as many people ask as an hour ago, for the same kind of work; every worker " +
			"fills up alike."
		s.Config.Workload = Workload{Patience: 60 * time.Second}
		f.Ramp = time.Minute
	case RetryStorm:
		s.Story = "A release of the clients gives up after 14 seconds and tries nine times more; the workers " +
			"compute answers that nobody waits for."
		s.Config.Workload = Workload{Rate: 3.4}
	case LongContextBurst:
		s.Story = "A few clients paste whole repositories of 24,000 tokens; their contexts fill the KV cache while " +
			"as many requests come as ever."
		s.Config.Workload = Workload{Patience: time.Minute, Timeout: 10 * time.Minute}
	case DecodeSaturation:
		s.Story = "On workers with memory for a thousand streams answers get much longer; nobody waits for the " +
			"first token, but every token comes later."
		s.Config.GPUsPerWorker = 4
		s.Config.Cost.MemoryBytes = 4 * 141e9 // of an H200
		s.Config.Engine.MaxNumSeqs = 1024
		s.Config.Workload = Workload{Rate: 10, Prompt: Lengths{Mean: 300, Sigma: 0.5},
			Output: Lengths{Mean: 500, Sigma: 0.5}, GroupTokens: 128, Timeout: 10 * time.Minute}
	case ClientCancellations:
		s.Story = "A release of the clients hangs up in the middle of most answers; the pool is as fast as ever."
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
