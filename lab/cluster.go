package lab

import "time"

// The faults in how workers start.
const (
	ColdStart        = "cold_start"
	ModelLoadFailure = "model_load_failure"
	BadRollout       = "bad_rollout"
)

var clusterFaults = []string{ColdStart, ModelLoadFailure, BadRollout}

// cluster sets the scenario if the fault is one of clusterFaults, and reports whether it is.
func (s *Scenario) cluster(f *Fault) bool {
	switch f.Name {
	case ColdStart:
		s.Story = "Half of the machines are replaced. The new workers load the weights for ten minutes, and the " +
			"others carry the load."
	case ModelLoadFailure:
		s.Story = "A rollout names an image that does not exist. Its first worker never starts, and the old " +
			"workers still serve."
		if s.Config.Seed%2 == 1 {
			s.Story = "The token for the model hub has expired. A worker on a new machine cannot load its model and " +
				"crashes again and again."
		}
	case BadRollout:
		s.Story = "A new image fails two of five requests. Its workers are ready, so the rollout continues, one " +
			"worker every few minutes."
		s.Config.MinReady = 4 * time.Minute
	default:
		return false
	}
	return true
}

// beginCluster starts a fault if it is one of clusterFaults.
func (f *Fleet) beginCluster(a *activeFault) {
	switch {
	case a.Name == ColdStart:
		f.replaceHalf(a.Severity)
	case a.Name == ModelLoadFailure && f.cfg.Seed%2 == 1:
		f.denied = true
		f.terminate(f.workers[min(a.Worker, len(f.workers)-1)], "its machine is replaced")
	case a.Name == ModelLoadFailure:
		f.setImage(f.cfg.Kind.defaults().missing)
	case a.Name == BadRollout:
		f.flaw = min(1, 0.4*a.Severity)
		f.setImage(f.cfg.Kind.defaults().flawed)
	}
}
