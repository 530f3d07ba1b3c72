package lab

// The faults that are in how workers come to be.
const (
	ColdStart = "cold_start"
)

var clusterFaults = []string{ColdStart}

// cluster sets the scenario of a fault of how workers come to be; false where the fault is another.
func (s *Scenario) cluster(f *Fault) bool {
	switch f.Name {
	case ColdStart:
		s.Story = "The machines of half of the workers are replaced; the new workers load the weights for ten minutes, and the others carry the load."
	default:
		return false
	}
	return true
}

// strikeCluster starts such a fault.
func (f *Fleet) strikeCluster(a *activeFault) {
	switch a.Name {
	case ColdStart:
		f.replaceHalf(a.Severity)
	}
}
