package lab

import (
	"fmt"
	"time"
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

// NewDecoy returns the scenario of a decoy. The nervous rules are evaluated besides the usual ones.
func NewDecoy(decoy string, seed uint64) (Scenario, error) {
	s := Scenario{Name: decoy, Config: Config{Seed: seed}, Length: 20 * time.Minute, Nervous: true}
	f := Fault{Name: decoy, At: 5 * time.Minute, Worker: 1}
	switch decoy {
	case LoadTest:
		s.Story = "A load test doubles the traffic for eight minutes. The pool carries it."
		s.Config.Workload = Workload{Rate: 2.8}
		f.For = 8 * time.Minute
	case CleanRollout:
		s.Story = "A new revision rolls out, one worker at a time. The others carry the load."
		s.Config.Workload = Workload{Rate: 1.4}
	case ScaleDown:
		s.Story = "Four workers become two, because two are enough for the evening."
		s.Config.Workload = Workload{Rate: 1.2}
	case QuietHour:
		s.Story = "Traffic falls to a third, as every night."
		s.Config.Workload = Workload{Rate: 2}
	case FullCache:
		s.Story = "A batch job sends requests at an even pace. The KV cache is nearly full of useful blocks, " +
			"but no request waits or is preempted."
		s.Config.Engine = Engine{NumGPUBlocks: 3700, MaxModelLen: 16384}
		s.Config.Workload = Workload{Rate: 4, Trace: evenPace(1000, 1200)}
	case SlowClient:
		s.Story = "One client requests answers of 7,000 tokens. They take minutes, as expected."
		s.Config.Workload = Workload{Rate: 3, Output: Lengths{Mean: 300, Sigma: 0.5}, Timeout: 20 * time.Minute}
	default:
		return Scenario{}, fmt.Errorf("decoy %q is unknown: use one of %s", decoy, joined(Decoys()))
	}
	s.Faults = []Fault{f}
	return s, nil
}

// shapeDecoy changes the traffic if the decoy is a change of traffic.
func (a *activeFault) shapeDecoy(w *Workload, level float64) {
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
		w.WordyShare, w.Wordy = min(1, 0.03*level), Lengths{Mean: 7000, Sigma: 0.1}
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

// evenPace returns a trace of equal requests with equal pauses.
func evenPace(prompt, output int) Trace {
	t := make(Trace, 240)
	for i := range t {
		t[i] = Arrival{At: time.Duration(i) * time.Second, Prompt: prompt, Output: output, Group: -1}
	}
	return t
}
