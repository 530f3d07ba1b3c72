package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"paramedic/cmd/paramedic/service"
	"paramedic/rules/health"
	"paramedic/state"
)

// checkNames has the names of checks for people, if they differ from the IDs.
var checkNames = map[string]string{"kv_cache": "KV cache", "gpu": "GPU", "error_budget": "error budget"}

// Notes returns the reasons of unhealthy pools that a value alone does not show, and their
// pathologies.
func (f Report) Notes() []string {
	var lines []string
	for _, p := range f.Pools {
		name := poolName(p)
		for _, check := range append(slices.Clone(service.HealthChecks), "error_budget", "workers") {
			if c := p.Checks[check]; c.Note != "" && c.Status != health.Healthy {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", name, cmp.Or(checkNames[check], check), c.Note))
			}
		}
		for _, x := range p.Pathologies {
			causes := make([]string, len(x.PointsTo))
			for i, c := range x.PointsTo {
				causes[i] = string(c)
			}
			lines = append(lines, fmt.Sprintf("%s: %s: %s. Looks like %s", name, x.Title, x.Text,
				strings.Join(causes, ", ")))
		}
	}
	return lines
}

func poolName(p health.Pool) string { return cmp.Or(p.Pool, p.Model, "the pool") }

// Unmeasured returns the checks without a value, by pool and reason. Silence would read as health.
func (f Report) Unmeasured() []string {
	why := map[string]string{}
	for _, m := range f.Missing {
		why[m.Signal] = m.Reason
	}
	var lines []string
	for _, p := range f.Pools {
		var reasons []string
		names := map[string][]string{}
		for _, check := range service.HealthChecks {
			c := p.Checks[check]
			if c.Value != nil {
				continue
			}
			reason := cmp.Or(why[c.Signal], "no value")
			if names[reason] == nil {
				reasons = append(reasons, reason)
			}
			names[reason] = append(names[reason], cmp.Or(checkNames[check], check))
		}
		for _, reason := range reasons {
			lines = append(lines, fmt.Sprintf("%s: not measured: %s (%s)", poolName(p),
				strings.Join(names[reason], ", "), reason))
		}
	}
	for _, why := range f.Untraced {
		lines = append(lines, "not measured: request traces ("+why+")")
	}
	return lines
}

// untraced returns the reason why a query found no traces. It is empty if it found some, or no
// store was named.
func untraced(ev state.Evidence) string {
	for _, m := range ev.Missing {
		if m.Signal == "trace_requests" {
			return m.Reason
		}
	}
	return ""
}

// Closing returns the conclusion on a fleet in which no pool shows a symptom. It is empty if one
// does.
func (f Report) Closing() string {
	if len(f.Verdict) > 0 {
		return ""
	}
	unknown, unwell := 0, false
	for _, p := range f.Pools {
		if p.Overall == health.Unknown {
			unknown++
		}
		unwell = unwell || p.Overall == health.HealthWarning || p.Overall == health.HealthCritical
	}
	switch {
	case unwell:
		return "There is no symptom yet, but a pool is not healthy: see HEALTH."
	case len(f.Unread) > 0:
		return "No other problem was found."
	case unknown > 0 && unknown == len(f.Pools):
		return "Too little was measured to rate the fleet's health."
	case len(f.Unmeasured()) > 0:
		return "No problem was found, as far as it was measured."
	}
	return "No problem was found."
}
