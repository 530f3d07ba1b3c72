package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A dimension is one respect in which fleets differ, with its possible values.
type dimension struct {
	name   string
	values []string
}

// dimensions lists what a run draws. The first value is the lab's own.
var dimensions = []dimension{
	{"engine", []string{"vllm", "sglang", "dynamo", "trtllm"}},
	// Where evidence comes from.
	{"source", []string{"pages", "promql"}},
	// The labels of a worker's target: all; without node and container; with the prefix of old
	// scrape configurations; an address only.
	{"target", []string{"full", "pod", "prefixed", "address"}},
	// The job of the workers: the engine's name, a PodMonitor's namespace/name, a ServiceMonitor's
	// Service, the job for annotated pods.
	{"job", []string{"engine", "podmonitor", "servicemonitor", "annotated"}},
	// kube-state-metrics and cAdvisor: with honor_labels, without, neither.
	{"kubernetes", []string{"honored", "exported", "none"}},
	// The GPU exporter: the workload in exported_pod, in pod, not named, no exporter.
	{"gpu", []string{"exported", "honored", "unmapped", "none"}},
	{"gateway", []string{"picker", "envoy", "nginx", "istio", "none"}},
	// Alert rules: the lab's, rules with a team's own names and thresholds, kube-prometheus' with
	// three of a team.
	{"rules", []string{"lab", "team", "platform"}},
	// Other targets of the same Prometheus: none, the platform's, a healthy pool in another
	// namespace, a healthy pool in the same namespace.
	{"tenants", []string{"none", "platform", "elsewhere", "beside"}},
	{"interval", []string{"5s", "15s", "30s", "60s"}},
	{"strength", []string{"usual", "weak", "strong"}},
	{"onset", []string{"step", "ramp"}},
	{"traffic", []string{"even", "day"}},
	{"workers", []string{"4", "2", "9"}},
	// When the alert rules are loaded: before the fault, or one hour or two and a half after it
	// began. With hours, the hour before the first alert is not healthy.
	{"age", []string{"now", "hour", "hours"}},
	// What else happens: nothing, bursts in the arrivals, a clean rollout of another pool just
	// before the alerts.
	{"background", []string{"quiet", "bursts", "rollout"}},
	// The labels of alerts: the lab's severities, those of a team with a label for it, page and
	// ticket with an operator's labels, neither severity nor namespace.
	{"labels", []string{"lab", "team", "page", "bare"}},
}

// A convention holds the drawn value of each dimension.
type convention map[string]string

// draw returns the convention of a run.
func draw(seed uint64) convention {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	c := convention{}
	for _, d := range dimensions {
		c[d.name] = d.values[r.IntN(len(d.values))]
	}
	return c
}

// fix sets the dimensions that a list such as "source=promql,gpu=none" names.
func (c convention) fix(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		i := slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == name })
		if i < 0 || !slices.Contains(dimensions[i].values, value) {
			return fmt.Errorf("%q is no value of a dimension", pair)
		}
		c[name] = value
	}
	return nil
}

// String lists the values in the order of the dimensions.
func (c convention) String() string {
	var out []string
	for _, d := range dimensions {
		out = append(out, d.name+"="+c[d.name])
	}
	return strings.Join(out, ",")
}
