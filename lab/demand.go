package lab

// The faults that are in what the clients ask for, and how they go on asking.
const (
	ClientCancellations = "client_cancellations"
)

var demandFaults = []string{ClientCancellations}

// demand sets the scenario of a fault of demand; false where the fault is another.
func (s *Scenario) demand(f *Fault) bool {
	switch f.Name {
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
	case ClientCancellations:
		w.CancelShare = min(1, w.CancelShare+0.85*level)
	}
}
