package catalog

import (
	"slices"
	"strings"

	"paramedic/rules/promql"
	"paramedic/state"
)

const (
	// maxReadings limits the readings that are remembered: the alert rules of a large fleet.
	maxReadings = 1024
	// maxReadingURL limits the address of a remembered reading in bytes, so that all of them need
	// at most 4 MB. A longer one is read again for each of its alerts.
	maxReadingURL = 4 << 10
)

// A Reading holds what the expression of an alert rule tells. Callers must not change it.
type Reading struct {
	Rule   *MetricRule // the first that the expression fits; nil if none does
	GPU    bool        // reads metrics of the DCGM exporter
	Picker bool        // reads metrics of an InferencePool's endpoint picker
	Proxy  bool        // reads only what a proxy counts of requests
	Series []string    // PromQL for the series that the expression is about
}

// ReadingOf returns the reading of the expression in an alert's generatorURL. The alerts of one
// rule share the address, so the last readings are remembered.
func (c *Catalog) ReadingOf(generatorURL string) Reading {
	if known, ok := c.readings.Get(generatorURL); ok {
		return known
	}
	read := c.read(promql.UsesOf(promql.ExpressionOf(generatorURL)))
	if len(generatorURL) <= maxReadingURL {
		c.readings.Add(strings.Clone(generatorURL), read) // a clone: the payload is not kept alive
	}
	return read
}

func (c *Catalog) read(uses []promql.MetricUse) Reading {
	r := Reading{GPU: readsGPU(uses), Picker: readsPicker(uses), Proxy: readsProxy(uses), Series: promql.SeriesOf(uses)}
	r.Rule = c.ruleOf(uses)
	return r
}

// ruleOf returns the first rule that fits by a metric that is more than a condition, or else by
// any. A metric that a rule calls unclassified belongs to another system: the others decide, if any
// fits. It returns nil if none fits.
func (c *Catalog) ruleOf(uses []promql.MetricUse) *MetricRule {
	var foreign *MetricRule
	for _, fits := range []func(*MetricRule, []promql.MetricUse) bool{(*MetricRule).fitsSubject, (*MetricRule).Fits} {
		ours := uses
		for i := range c.MetricRules() {
			rule := &c.MetricRules()[i]
			switch {
			case !fits(rule, ours):
			case rule.Symptom != state.Unclassified:
				return rule
			default:
				foreign = rule
				ours = slices.DeleteFunc(slices.Clone(ours), rule.fitsUse)
			}
		}
	}
	return foreign
}

// readsGPU reports whether the expression reads metrics of the DCGM exporter.
func readsGPU(uses []promql.MetricUse) bool {
	return slices.ContainsFunc(uses, func(u promql.MetricUse) bool { return strings.HasPrefix(u.Metric, "DCGM_") })
}

// proxyRequests are the prefixes of what Istio, the nginx ingress controller and Envoy count of
// requests. Their other metrics are about the proxy itself.
var proxyRequests = []string{"istio_request", "nginx_ingress_controller_request", "envoy_cluster_upstream_rq",
	"envoy_http_downstream_rq"}

// readsProxy reports whether the expression reads only what a proxy counts of requests.
func readsProxy(uses []promql.MetricUse) bool {
	return len(uses) > 0 && !slices.ContainsFunc(uses, func(u promql.MetricUse) bool {
		return !slices.ContainsFunc(proxyRequests, func(p string) bool { return strings.HasPrefix(u.Metric, p) })
	})
}

// readsPicker reports whether the expression reads metrics of an InferencePool's endpoint picker,
// under its current prefix or an older one.
func readsPicker(uses []promql.MetricUse) bool {
	return slices.ContainsFunc(uses, func(u promql.MetricUse) bool {
		return slices.ContainsFunc([]string{"llm_d_epp_", "inference_pool_", "inference_objective_",
			"inference_extension_"}, func(p string) bool {
			return strings.HasPrefix(u.Metric, p)
		})
	})
}
