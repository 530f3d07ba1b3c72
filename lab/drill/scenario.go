package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/lab"
	"paramedic/lab/traffic"
)

// A Scenario is a fleet and its faults.
type Scenario struct {
	Name   string
	Story  string // what happens, for people
	Config lab.Config
	Faults []lab.Fault
	Length time.Duration // long enough for the alerts that the fault raises
	// Nervous adds the nervous alert rules.
	Nervous bool
}

// New returns the scenario of a fault. The pool is healthy for the first five minutes. From
// seed 100 on it tells one of the lab's own stories, drawn by the seed.
func New(fault string, seed uint64) (Scenario, error) {
	return Story(fault, drawn(fault, seed), seed)
}

// Story returns the scenario of a fault with one of the lab's own stories; 0 is the first.
func Story(fault string, story int, seed uint64) (Scenario, error) {
	s := Scenario{Name: fault, Config: lab.Config{Seed: seed}, Length: 20 * time.Minute}
	f := lab.Fault{Name: fault, At: 5 * time.Minute, Worker: 1}
	switch fault {
	case lab.GPUThrottle, lab.NodeFailure, lab.OOMKilled, lab.CUDAOOM, lab.GPUMemoryLeak:
		s.machine()
	case lab.KVExhaustion:
		s.Story = "Answers get more than twice as long. max_num_seqs 256 admits more than the KV cache " +
			"can hold, and preemptions reduce the throughput."
	case lab.KVLeak:
		s.Story = "One worker never frees the KV blocks of cancelled requests. Batch traffic comes in bursts."
		s.Config.Workload = traffic.Workload{Rate: 2.5, On: 75 * time.Second, Off: 75 * time.Second,
			Output: traffic.Lengths{Mean: 400, Sigma: 0.5}}
		f.Severity = 2
	case lab.ConcurrencyCap:
		s.Story = "max_num_seqs is 8. Traffic grows by less than half, requests queue, and the KV cache stays almost empty."
		s.Config.Engine.MaxNumSeqs = 8
		s.Config.Workload = traffic.Workload{Rate: 1.6, Patience: time.Minute, Retries: -1}
	case lab.PrefillStarvation:
		s.Story = "The token budget of a step is cut to a few tokens more than the running requests need. New " +
			"requests wait for their prefill."
		s.Config.Workload = traffic.Workload{Rate: 4, Output: traffic.Lengths{Mean: 1500, Sigma: 0.5}, Patience: time.Minute, Retries: -1}
	case lab.RoutingSkew:
		s.Story = "The router sends most requests to one worker. The others idle."
		s.Config.Workload = traffic.Workload{Rate: 4}
	case lab.PrefixCacheCollapse:
		s.Story = "A new prompt template starts with a timestamp. Prompts share no prefix, so every prompt is " +
			"computed in full."
		s.Config.Workload = traffic.Workload{Rate: 4.4, Prompt: traffic.Lengths{Mean: 4200, Sigma: 0.1},
			Output: traffic.Lengths{Mean: 120, Sigma: 0.5}, Groups: 6, GroupTokens: 3200, GroupShare: 0.97, Patience: 60 * time.Second}
	case lab.HostMemoryLeak:
		s.Story = "One worker's host memory grows until the kernel kills it."
	case lab.QualityRegression:
		s.Story = "A rollout brings a chat template that does not fit the model. Latency is normal, but every " +
			"third answer is empty or a refusal."
	case lab.GPUFault:
		s.Story = "A GPU falls off the bus. Its worker fails, crashes, and cannot start there again."
	case lab.EngineHang:
		s.Story = "One engine stops generating. Its health endpoint still answers 200."
	case lab.BenignAlert:
		s.Story = "97 % of GPU memory is reserved, as always. An alert rule treats this as an emergency."
	case lab.GatewayFailure:
		s.Story = "The endpoint picker loses its watch of the pool. It sees no endpoint and answers 503, while " +
			"four healthy workers idle."
	case lab.MonitoringGap:
		s.Story = "The engines' /metrics answer 500, because the directory that their processes share is full. " +
			"Users notice nothing."
	case lab.GPUUnderutilization:
		s.Story = "An autoscaler resizes the containers in place to one CPU core. Every step waits for the " +
			"host, the GPUs idle, and tokens are slow."
		s.Config.Workload = traffic.Workload{Rate: 3, Output: traffic.Lengths{Mean: 400, Sigma: 0.5}}
	default:
		if s.demand(&f) || s.cluster(&f) {
			break
		}
		return Scenario{}, fmt.Errorf("scenario %q is unknown: use one of %s", fault, strings.Join(lab.Faults(), ", "))
	}
	s.tell(&f, story)
	s.Faults = []lab.Fault{f}
	return s, nil
}

// Resize returns the scenario with another number of workers and the same traffic for each.
func (s Scenario) Resize(workers int) Scenario {
	before := s.Config.WithDefaults()
	s.Config.Workload.Rate = before.Workload.Rate * float64(workers) / float64(before.Workers)
	s.Config.Workers = workers
	return s
}

// Diurnal returns the scenario with traffic that varies over the day. The fault comes at nine in
// the morning. The traffic is then the scenario's, and an eighth more than an hour before.
func (s Scenario) Diurnal() Scenario {
	s.Config.Workload.Daily = 0.5
	s.Config.Start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).Add(-s.Faults[0].At)
	return s
}

// Later returns the scenario with an earlier start. The faults come at the same moments as before.
func (s Scenario) Later(by time.Duration) Scenario {
	s.Config.Start = s.Config.WithDefaults().Start.Add(-by)
	s.Faults = slices.Clone(s.Faults)
	for i := range s.Faults {
		s.Faults[i].At += by
	}
	s.Length += by
	return s
}

// Beginning returns the scenario with another start. Its traffic keeps its hours of the day.
func (s Scenario) Beginning(at time.Time) Scenario {
	s.Config.Ahead += s.Config.WithDefaults().Start.Sub(at)
	s.Config.Start = at
	return s
}

// Build returns the scenario's fleet with its faults injected.
func (s Scenario) Build() (*lab.Fleet, error) {
	f, err := lab.NewFleet(s.Config)
	if err != nil {
		return nil, err
	}
	for _, x := range s.Faults {
		if err := f.Inject(x); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	return f, nil
}
