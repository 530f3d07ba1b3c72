package drill

import (
	"fmt"
	"strings"
	"time"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

// NewDecoy returns the scenario of a decoy. The nervous rules are evaluated besides the usual ones.
func NewDecoy(decoy string, seed uint64) (Scenario, error) {
	s := Scenario{Name: decoy, Config: lab.Config{Seed: seed}, Length: 20 * time.Minute, Nervous: true}
	f := lab.Fault{Name: decoy, At: 5 * time.Minute, Worker: 1}
	switch decoy {
	case lab.LoadTest:
		s.Story = "A load test doubles the traffic for eight minutes. The pool carries it."
		s.Config.Workload = traffic.Workload{Rate: 2.8}
		f.For = 8 * time.Minute
	case lab.CleanRollout:
		s.Story = "A new revision rolls out, one worker at a time. The others carry the load."
		s.Config.Workload = traffic.Workload{Rate: 1.4}
	case lab.ScaleDown:
		s.Story = "Four workers become two, because two are enough for the evening."
		s.Config.Workload = traffic.Workload{Rate: 1.2}
	case lab.QuietHour:
		s.Story = "Traffic falls to a third, as every night."
		s.Config.Workload = traffic.Workload{Rate: 2}
	case lab.FullCache:
		s.Story = "A batch job sends requests at an even pace. The KV cache is nearly full of useful blocks, " +
			"but no request waits or is preempted."
		s.Config.Engine = engine.Settings{NumGPUBlocks: 3700, MaxModelLen: 16384}
		s.Config.Workload = traffic.Workload{Rate: 4, Trace: evenPace(1000, 1200)}
	case lab.SlowClient:
		s.Story = "One client requests answers of 7,000 tokens. They take minutes, as expected."
		s.Config.Workload = traffic.Workload{Rate: 3, Output: traffic.Lengths{Mean: 300, Sigma: 0.5}, Timeout: 20 * time.Minute}
	default:
		return Scenario{}, fmt.Errorf("decoy %q is unknown: use one of %s", decoy, strings.Join(lab.Decoys(), ", "))
	}
	s.Faults = []lab.Fault{f}
	return s, nil
}

// evenPace returns a trace of equal requests with equal pauses.
func evenPace(prompt, output int) traffic.Trace {
	t := make(traffic.Trace, 240)
	for i := range t {
		t[i] = traffic.Arrival{At: time.Duration(i) * time.Second, Prompt: prompt, Output: output, Group: -1}
	}
	return t
}
