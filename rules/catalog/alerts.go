package catalog

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"paramedic/rules/promql"
	"paramedic/state"
)

// An alertRule holds what a known alert rule means.
type alertRule struct {
	Symptom  state.Symptom
	Severity state.Severity
	Hints    map[string]string
}

// A MetricRule holds what a rule means that uses certain metrics in a certain way.
type MetricRule struct {
	Any     []string
	Is      string
	Also    []string
	Idle    []string
	Func    []string
	Without []string
	Label   map[string]*regexp.Regexp
	Symptom state.Symptom
	Hints   map[string]string
}

// A wordRule holds what a rule means that has one of these words in its name.
type wordRule struct {
	Any     []string
	Symptom state.Symptom
}

// Fits reports whether the uses of metrics in an expression match the rule.
func (r *MetricRule) Fits(uses []promql.MetricUse) bool {
	for _, also := range r.Also {
		if !slices.ContainsFunc(uses, func(u promql.MetricUse) bool { return promql.Named(u.Metric, also) }) {
			return false
		}
	}
	for _, idle := range r.Idle {
		if !slices.ContainsFunc(uses, func(u promql.MetricUse) bool {
			return promql.Named(u.Metric, idle) && (u.Is == "zero" || u.Is == "below")
		}) {
			return false
		}
	}
	return slices.ContainsFunc(uses, r.fitsUse)
}

// fitsSubject reports whether the rule fits an expression by a metric that is more than a condition
// of another one. A rule that reads several metrics fits by any of them, and so does one about
// hardware, which explains the others.
func (r *MetricRule) fitsSubject(uses []promql.MetricUse) bool {
	byAny := len(r.Also) > 0 || len(r.Idle) > 0 || r.Symptom == "gpu_hardware"
	return r.Fits(uses) && slices.ContainsFunc(uses, func(u promql.MetricUse) bool { return (byAny || !u.Aside) && r.fitsUse(u) })
}

func (r *MetricRule) fitsUse(u promql.MetricUse) bool {
	if u.Under || !slices.ContainsFunc(r.Any, func(p string) bool { return promql.Named(u.Metric, p) }) {
		return false
	}
	switch {
	case u.Is == "" || r.Is == "" || r.Is == u.Is:
	case r.Is == "below" && u.Is == "zero":
	default:
		return false
	}
	if r.Is == "zero" && u.Is != "zero" {
		return false
	}
	if len(r.Func) > 0 && !slices.ContainsFunc(r.Func, func(f string) bool { return slices.Contains(u.Funcs, f) }) {
		return false
	}
	if slices.ContainsFunc(r.Without, func(f string) bool { return slices.Contains(u.Funcs, f) }) {
		return false
	}
	for k, v := range r.Label {
		if u.Sel == nil || !slices.ContainsFunc(u.Sel.LabelMatchers, func(m *labels.Matcher) bool {
			asked := m.Name != promql.NameLabel && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp)
			return asked && promql.Named(m.Name, k) && v.MatchString(strings.ToLower(m.Value))
		}) {
			return false
		}
	}
	return true
}

// severity maps common severity words to a severity; "" if the word is unknown.
func severity(word string) state.Severity {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "critical", "crit", "page", "pager", "paging", "emergency", "fatal", "disaster", "p0", "p1", "sev0", "sev1",
		"sev-0", "sev-1", "s1":
		return state.Critical
	case "warning", "warn", "error", "major", "high", "medium", "ticket", "p2", "p3", "sev2", "sev3", "sev-2", "sev-3",
		"s2", "s3":
		return state.Warning
	case "info", "informational", "information", "notice", "none", "low", "minor", "debug", "log", "p4", "p5", "sev4",
		"sev5", "sev-4", "sev-5", "s4":
		return state.Info
	}
	return ""
}

// SeverityOf returns the severity that an alert's labels give, or the fallback if they give none.
func SeverityOf(labels map[string]string, fallback state.Severity) state.Severity {
	for _, key := range []string{"severity", "priority", "level"} {
		if s := severity(labels[key]); s != "" {
			return s
		}
	}
	return fallback
}
