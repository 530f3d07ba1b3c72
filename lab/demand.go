package lab

import "time"

// The faults that are in what the clients ask for, and how they go on asking.
const (
	TrafficSurge        = "traffic_surge"
	RetryStorm          = "retry_storm"
	ClientCancellations = "client_cancellations"
)

var demandFaults = []string{TrafficSurge, RetryStorm, ClientCancellations}

// demand sets the scenario of a fault of demand; false where the fault is another.
func (s *Scenario) demand(f *Fault) bool {
	switch f.Name {
	case TrafficSurge:
		s.Story = "More than four times as many people ask as an hour ago, for the same kind of work; every worker fills up alike."
		s.Config.Workload = Workload{Patience: 60 * time.Second}
		f.Ramp = time.Minute
	case RetryStorm:
		s.Story = "A release of the clients gives up after 14 seconds and tries nine times more; the workers compute answers that nobody waits for."
		s.Config.Workload = Workload{Rate: 3.4}
	case ClientCancellations:
		s.Story = "A release of the clients hangs up in the middle of most answers; the pool is as fast as ever."
	default:
		return false
	}
	return true
}

// shapeDemand changes the traffic by the faults of demand.
func (a *activeFault) shapeDemand(w *Workload, level float64) {
	switch a.Name {
	case TrafficSurge:
		w.Rate *= 1 + 3.4*level
	case RetryStorm:
		if level > 0 {
			w.Timeout = min(w.Timeout, 14*time.Second)
			w.Retries = max(w.Retries, int(9*level))
		}
	case ClientCancellations:
		w.CancelShare = min(1, w.CancelShare+0.85*level)
	}
}
