package lab

// The faults in how workers start.
const (
	ColdStart        = "cold_start"
	ModelLoadFailure = "model_load_failure"
	BadRollout       = "bad_rollout"
)

var clusterFaults = []string{ColdStart, ModelLoadFailure, BadRollout}

// beginCluster starts a fault if it is one of clusterFaults.
func (f *Fleet) beginCluster(a *activeFault) {
	switch {
	case a.Name == ColdStart:
		f.replaceHalf(a.Severity)
	case a.Name == ModelLoadFailure && f.cfg.Seed%2 == 1:
		f.denied = true
		f.terminate(f.workers[min(a.Worker, len(f.workers)-1)], "its machine is replaced")
	case a.Name == ModelLoadFailure:
		f.setImage(f.cfg.Kind.Defaults().Missing)
	case a.Name == BadRollout:
		f.flaw = min(1, 0.4*a.Severity)
		f.setImage(f.cfg.Kind.Defaults().Flawed)
	}
}
