package alerting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/lab/engine"
)

// A Rule is an alert rule. Expr is PromQL for a real Prometheus; the Ruler evaluates the same
// condition in Go.
type Rule struct {
	Name     string
	Expr     string
	For      time.Duration
	Severity string
	Summary  string

	eval func(h *history) vector
}

// Rules returns a kind's alert rules. Names, thresholds and holds are those that people commonly
// use; the metric names are those of the simulated release.
func Rules(k engine.Kind) []Rule {
	switch k {
	case engine.SGLang:
		return slices.Concat(sglangRules(), pickerRules(), commonRules(k))
	case engine.TRTLLM:
		return slices.Concat(trtllmRules(), pickerRules(), commonRules(k))
	case engine.Dynamo: // Dynamo's rules are loaded beside those of the engine
		return slices.Concat(vllmRules(), dynamoRules(), commonRules(k))
	}
	return slices.Concat(vllmRules(), httpRules(), pickerRules(), commonRules(k))
}

// keepFiring returns the keep_firing_for of a rule. Leaked blocks are visible only while a worker
// is idle, so with bursty traffic the expression comes and goes.
func keepFiring(rule string) time.Duration {
	if strings.HasSuffix(rule, "KVHeldWhileIdle") {
		return 5 * time.Minute
	}
	return 0
}

// PrometheusRules returns a kind's rules as a rules file for a real Prometheus.
func PrometheusRules(k engine.Kind) ([]byte, error) {
	type rule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Keep        string            `yaml:"keep_firing_for,omitempty"` // Prometheus 2.42 and newer
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
	type group struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Rules    []rule `yaml:"rules"`
	}
	g := group{Name: string(k), Interval: "5s"}
	for _, r := range Rules(k) {
		out := rule{Alert: r.Name, Expr: r.Expr, Labels: map[string]string{"severity": r.Severity},
			Annotations: map[string]string{"summary": r.Summary}}
		if r.For > 0 {
			out.For = fmt.Sprintf("%ds", int(r.For.Seconds()))
		}
		if keep := keepFiring(r.Name); keep > 0 {
			out.Keep = fmt.Sprintf("%ds", int(keep.Seconds()))
		}
		g.Rules = append(g.Rules, out)
	}
	body, err := yaml.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		return nil, fmt.Errorf("writing the rules file: %w", err)
	}
	return body, nil
}
