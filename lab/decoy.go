package lab

import (
	"time"

	"paramedic/lab/traffic"
)

// The decoys: events of every healthy fleet that set off nervous rules. No request suffers, so the
// right verdict is no incident, benign_alert, or unknown.
const (
	LoadTest     = "load_test"     // a load test that stays under capacity
	CleanRollout = "clean_rollout" // a new revision, one worker at a time, with capacity to spare
	ScaleDown    = "scale_down"    // fewer workers for less traffic
	QuietHour    = "quiet_hour"    // traffic falls to a third, as every night
	FullCache    = "full_cache"    // the KV cache is nearly full, without queue or preemption
	SlowClient   = "slow_client"   // one client asks for very long answers and waits for them
)

// Decoys returns the decoys' names.
func Decoys() []string {
	return []string{LoadTest, CleanRollout, ScaleDown, QuietHour, FullCache, SlowClient}
}

// shapeDecoy changes the traffic if the decoy is a change of traffic.
func (a *activeFault) shapeDecoy(w *traffic.Workload, level float64) {
	switch a.Name {
	case LoadTest:
		w.Rate *= 1 + level
	case ScaleDown:
		w.Rate *= max(0, 1-0.5*level)
	case QuietHour:
		w.Rate *= max(0, 1-0.67*level)
	case FullCache:
		w.Rate *= 1 + 0.35*level
	case SlowClient:
		w.WordyShare, w.Wordy = min(1, 0.03*level), traffic.Lengths{Mean: 7000, Sigma: 0.1}
	}
}

// beginDecoy starts a decoy that changes the deployment.
func (f *Fleet) beginDecoy(a *activeFault) {
	switch a.Name {
	case CleanRollout:
		f.deploy.template["kubectl.kubernetes.io/restartedAt"] = f.at(f.now).Format(time.RFC3339)
		f.deploy.generation++
		f.deploy.version++
		f.deploy.changed(f)
	case ScaleDown:
		f.deploy.replicas = max(1, f.deploy.replicas-2)
		f.deploy.generation++
		f.deploy.version++
	}
}
