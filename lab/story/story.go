package story

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// A Story is one way in which a fault happens.
type Story struct {
	Fault string
	Name  string // unique for the fault
	Text  string // what happens, for people

	own   int                   // the number of the lab's own story, if plot is nil
	fleet func(*drill.Scenario) // changes the fleet of the fault's first story; nil: nothing
	plot  *lab.Plot
}

// ID returns the story's unique name, FAULT/NAME.
func (s Story) ID() string { return s.Fault + "/" + s.Name }

// Scenario returns the scenario that tells the story. It has the story's ID as its name.
func (s Story) Scenario(seed uint64) (drill.Scenario, error) {
	out, err := drill.Story(s.Fault, s.own, seed)
	if err != nil {
		return out, fmt.Errorf("lab: %w", err)
	}
	if out.Name = s.ID(); s.plot == nil {
		return out, nil
	}
	out.Story = s.Text
	if s.fleet != nil {
		s.fleet(&out)
	}
	out.Faults[0].Plot = s.plot
	return out, nil
}

// Of returns the stories of a fault, the first one first, or none if the fault is unknown.
func Of(fault string) []Story {
	var out []Story
	for i, name := range own[fault] {
		s := Story{Fault: fault, Name: name, own: i}
		if scenario, err := drill.Story(fault, i, 0); err == nil {
			s.Text = scenario.Story
		}
		out = append(out, s)
	}
	for _, s := range told[fault] {
		s.Fault = fault
		out = append(out, s)
	}
	return out
}

// All returns the stories of all faults.
func All() []Story {
	var out []Story
	for _, fault := range lab.Faults() {
		out = append(out, Of(fault)...)
	}
	return out
}

// Expand replaces each fault by the IDs of its stories. Other names stay.
func Expand(names []string) []string {
	var out []string
	for _, name := range names {
		stories := Of(name)
		if len(stories) == 0 {
			out = append(out, name)
		}
		for _, s := range stories {
			out = append(out, s.ID())
		}
	}
	return out
}

// New returns the scenario of a fault, or of one story if the name is FAULT/STORY. Without a story,
// seeds below 100 play the first one, and other seeds draw one.
func New(name string, seed uint64) (drill.Scenario, error) {
	fault, story, named := strings.Cut(name, "/")
	stories := Of(fault)
	if !named {
		switch {
		case len(stories) == 0:
			return drill.New(fault, seed) // which names the faults
		case seed < 100:
			return stories[0].Scenario(seed)
		}
		return stories[rand.New(rand.NewPCG(seed, 6)).IntN(len(stories))].Scenario(seed)
	}
	i := slices.IndexFunc(stories, func(s Story) bool { return s.Name == story })
	if i < 0 {
		var names []string
		for _, s := range stories {
			names = append(names, s.ID())
		}
		return drill.Scenario{}, fmt.Errorf("story %q is unknown: use one of %s", name, strings.Join(names, ", "))
	}
	return stories[i].Scenario(seed)
}

// own names the lab's own stories, in its order.
var own = map[string][]string{
	lab.QualityRegression:   {"chat-template"},
	lab.KVExhaustion:        {"longer-answers", "wordy-client", "shrunk-cache"},
	lab.KVLeak:              {"cancelled-requests"},
	lab.ConcurrencyCap:      {"more-traffic", "longer-answers", "lowered-limit"},
	lab.PrefillStarvation:   {"small-budget", "slow-kernel"},
	lab.RoutingSkew:         {"one-favourite"},
	lab.PrefixCacheCollapse: {"timestamp-first", "prompt-per-tenant"},
	lab.HostMemoryLeak:      {"one-process"},
	lab.GPUFault:            {"off-the-bus"},
	lab.EngineHang:          {"one-engine"},
	lab.BenignAlert:         {"preallocated-memory"},
	lab.GatewayFailure:      {"no-endpoints"},
	lab.MonitoringGap:       {"all-workers"},
	lab.GPUUnderutilization: {"starved-host", "hardly-called"},
	lab.GPUThrottle:         {"failed-fan"},
	lab.NodeFailure:         {"power-loss"},
	lab.OOMKilled:           {"videos"},
	lab.CUDAOOM:             {"prompt-logprobs"},
	lab.GPUMemoryLeak:       {"one-engine"},
	lab.TrafficSurge:        {"fourfold", "request-limit-first"},
	lab.RetryStorm:          {"client-release", "short-timeout"},
	lab.LongContextBurst:    {"repositories", "retrieval", "documents"},
	lab.DecodeSaturation:    {"longer-answers"},
	lab.ClientCancellations: {"half-way"},
	lab.ColdStart:           {"half-replaced"},
	lab.ModelLoadFailure:    {"image-or-token"},
	lab.BadRollout:          {"failing-image"},
}

// told holds the stories that this package tells, by fault.
var told = map[string][]Story{
	lab.QualityRegression:   qualityRegression,
	lab.KVLeak:              kvLeak,
	lab.PrefillStarvation:   prefillStarvation,
	lab.RoutingSkew:         routingSkew,
	lab.PrefixCacheCollapse: prefixCacheCollapse,
	lab.HostMemoryLeak:      hostMemoryLeak,
	lab.GPUFault:            gpuFault,
	lab.EngineHang:          engineHang,
	lab.BenignAlert:         benignAlert,
	lab.GatewayFailure:      gatewayFailure,
	lab.MonitoringGap:       monitoringGap,
	lab.GPUUnderutilization: gpuUnderutilization,
	lab.GPUThrottle:         gpuThrottle,
	lab.NodeFailure:         nodeFailure,
	lab.OOMKilled:           oomKilled,
	lab.CUDAOOM:             cudaOOM,
	lab.GPUMemoryLeak:       gpuMemoryLeak,
	lab.TrafficSurge:        trafficSurge,
	lab.RetryStorm:          retryStorm,
	lab.DecodeSaturation:    decodeSaturation,
	lab.ClientCancellations: clientCancellations,
	lab.ColdStart:           coldStart,
	lab.ModelLoadFailure:    modelLoadFailure,
	lab.BadRollout:          badRollout,
}
