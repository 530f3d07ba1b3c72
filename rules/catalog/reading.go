package catalog

import (
	"slices"
	"strings"

	"paramedic/rules/promql"
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
	r := Reading{GPU: readsGPU(uses), Picker: readsPicker(uses), Series: promql.SeriesOf(uses)}
	for i := range c.MetricRules() {
		if rule := &c.MetricRules()[i]; rule.Fits(uses) {
			r.Rule = rule
			break
		}
	}
	return r
}

// readsGPU reports whether the expression reads metrics of the DCGM exporter.
func readsGPU(uses []promql.MetricUse) bool {
	return slices.ContainsFunc(uses, func(u promql.MetricUse) bool { return strings.HasPrefix(u.Metric, "DCGM_") })
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
