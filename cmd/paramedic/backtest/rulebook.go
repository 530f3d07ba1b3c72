package backtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// A rule is an alert rule that Prometheus evaluates today.
type rule struct {
	Name     string            `json:"name"`
	Expr     string            `json:"expr"`
	Labels   map[string]string `json:"labels,omitempty"`
	Interval time.Duration     `json:"interval_ns"`
}

// A rulebook holds today's alert rules by name. The ALERTS series has neither a rule's expression
// nor its interval.
type rulebook map[string][]rule

// readRules reads the alert rules. A server without an API for rules has none.
func readRules(ctx context.Context, api v1.API) (rulebook, error) {
	found, err := api.Rules(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the alert rules: %w", err)
	}
	out := rulebook{}
	for _, g := range found.Groups {
		for _, r := range g.Rules {
			a, ok := r.(v1.AlertingRule)
			if !ok {
				continue
			}
			labels := map[string]string{}
			for k, v := range a.Labels {
				if !strings.Contains(string(v), "{{") {
					labels[string(k)] = string(v)
				}
			}
			out[a.Name] = append(out[a.Name], rule{Name: a.Name, Expr: a.Query, Labels: labels,
				Interval: time.Duration(g.Interval * float64(time.Second))})
		}
	}
	return out, nil
}

// of returns the rule of an alert: of those with its name, the one that sets most of its labels.
func (b rulebook) of(labels map[string]string) (rule, bool) {
	var best rule
	found := false
	for _, r := range b[labels["alertname"]] {
		fits := true
		for k, v := range r.Labels {
			fits = fits && labels[k] == v
		}
		if fits && (!found || len(r.Labels) > len(best.Labels)) {
			best, found = r, true
		}
	}
	return best, found
}

// link returns the URL that Prometheus gives an alert. The rules read the expression in it.
func (b rulebook) link(labels map[string]string) string {
	r, ok := b.of(labels)
	if !ok {
		return ""
	}
	return "http://prometheus:9090/graph?g0.expr=" + url.QueryEscape(r.Expr) + "&g0.tab=1"
}
