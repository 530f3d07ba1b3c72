package rules

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"paramedic/internal/text"
	"paramedic/state"
)

// An alertRule holds what a known alert rule means.
type alertRule struct {
	Symptom  state.Symptom
	Severity state.Severity
	Hints    map[string]string
}

// A metricRule holds what a rule means that uses certain metrics in a certain way.
type metricRule struct {
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

// Classify returns an alert's symptom and the entity that it is about. It never fails: an alert
// that matches no entry is unclassified.
func (c *Catalog) Classify(a state.Alert, cluster string) state.Sign {
	uses := usesOf(expressionOf(a.GeneratorURL))
	s := state.Sign{Symptom: state.Unclassified, By: "none", Hints: map[string]string{}}
	fallback := state.Warning
	if r, ok := c.alerts[a.Name()]; ok {
		s.Symptom, s.By = r.Symptom, "name"
		maps.Copy(s.Hints, r.Hints)
		if r.Severity != "" {
			fallback = r.Severity
		}
		// The rule may differ from the known one of this name, but the metrics that it reads are a
		// fact.
		if m := c.byMetrics(uses); m != nil && m.Symptom == s.Symptom {
			addHints(s.Hints, m.Hints)
		}
	} else if m := c.byMetrics(uses); m != nil {
		s.Symptom, s.By = m.Symptom, "metrics"
		addHints(s.Hints, m.Hints)
	} else if id, ok := c.byLabels(a); ok {
		s.Symptom, s.By = id, "labels"
	}
	s.Severity = severityOf(a.Labels, fallback)
	s.Entity = entityOf(a, cluster, readsGPU(uses) || strings.HasPrefix(string(s.Symptom), "gpu_"), readsPicker(uses) || s.Symptom == "no_endpoints")
	if name := text.Phrase(a.Name()); name != "" && s.Hints["benign"] != "" {
		s.Hints["rule"] = name
	}
	c.xidHints(&s, a)
	if placeless(s.Entity) && !c.symptoms[s.Symptom].Serving {
		s.Hints["group"] = groupOf(a)
	}
	if len(s.Hints) == 0 {
		s.Hints = nil
	}
	return s
}

func addHints(to, from map[string]string) {
	for k, v := range from {
		if to[k] == "" {
			to[k] = v
		}
	}
}

// byMetrics returns the first rule of the catalogue that the expression fits.
func (c *Catalog) byMetrics(uses []use) *metricRule {
	if len(uses) == 0 {
		return nil
	}
	for i := range c.metrics {
		if c.metrics[i].fits(uses) {
			return &c.metrics[i]
		}
	}
	return nil
}

func (r *metricRule) fits(uses []use) bool {
	for _, also := range r.Also {
		if !slices.ContainsFunc(uses, func(u use) bool { return named(u.metric, also) }) {
			return false
		}
	}
	for _, idle := range r.Idle {
		if !slices.ContainsFunc(uses, func(u use) bool { return named(u.metric, idle) && (u.is == "zero" || u.is == "below") }) {
			return false
		}
	}
	return slices.ContainsFunc(uses, r.fitsUse)
}

func (r *metricRule) fitsUse(u use) bool {
	if u.under || !slices.ContainsFunc(r.Any, func(p string) bool { return named(u.metric, p) }) {
		return false
	}
	switch {
	case u.is == "" || r.Is == "" || r.Is == u.is:
	case r.Is == "below" && u.is == "zero":
	default:
		return false
	}
	if r.Is == "zero" && u.is != "zero" {
		return false
	}
	if len(r.Func) > 0 && !slices.ContainsFunc(r.Func, func(f string) bool { return slices.Contains(u.funcs, f) }) {
		return false
	}
	if slices.ContainsFunc(r.Without, func(f string) bool { return slices.Contains(u.funcs, f) }) {
		return false
	}
	for k, v := range r.Label {
		if u.sel == nil || !slices.ContainsFunc(u.sel.LabelMatchers, func(m *labels.Matcher) bool {
			asked := m.Name != nameLabel && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp)
			return asked && named(m.Name, k) && v.MatchString(strings.ToLower(m.Value))
		}) {
			return false
		}
	}
	return true
}

// named reports whether a metric matches a pattern: a name, with '*' for any text. It treats the
// prefix vllm_ as vllm:.
func named(metric, pattern string) bool {
	return slices.ContainsFunc([]string{metric, bare(metric), colon(metric), bare(colon(metric))}, func(m string) bool { return goesBy(m, pattern) })
}

// goesBy reports whether a name matches a pattern with '*' at any position.
func goesBy(name, pattern string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return name == pattern
	}
	name, found := strings.CutPrefix(name, head)
	for found {
		part, more, starred := strings.Cut(rest, "*")
		if !starred {
			return strings.HasSuffix(name, part)
		}
		_, name, found = strings.Cut(name, part)
		rest = more
	}
	return false
}

// readsGPU reports whether the expression reads metrics of the DCGM exporter.
func readsGPU(uses []use) bool {
	return slices.ContainsFunc(uses, func(u use) bool { return strings.HasPrefix(u.metric, "DCGM_") })
}

// readsPicker reports whether the expression reads metrics of an InferencePool's endpoint picker,
// under its current prefix or an older one.
func readsPicker(uses []use) bool {
	return slices.ContainsFunc(uses, func(u use) bool {
		return slices.ContainsFunc([]string{"llm_d_epp_", "inference_pool_", "inference_objective_", "inference_extension_"}, func(p string) bool {
			return strings.HasPrefix(u.metric, p)
		})
	})
}

// byLabels reads the symptom from a label of the rule, or from words in its name.
func (c *Catalog) byLabels(a state.Alert) (state.Symptom, bool) {
	for _, key := range []string{"paramedic_symptom", "symptom"} {
		if _, ok := c.symptoms[state.Symptom(a.Labels[key])]; ok {
			return state.Symptom(a.Labels[key]), true
		}
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, a.Name()[:min(len(a.Name()), 256)])
	for _, w := range c.words {
		if slices.ContainsFunc(w.Any, func(word string) bool { return strings.Contains(name, word) }) {
			return w.Symptom, true
		}
	}
	return "", false
}

// severity maps common severity words to a severity; "" if the word is unknown.
func severity(word string) state.Severity {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "critical", "crit", "page", "pager", "paging", "emergency", "fatal", "disaster", "p0", "p1", "sev0", "sev1", "sev-0", "sev-1", "s1":
		return state.Critical
	case "warning", "warn", "error", "major", "high", "medium", "ticket", "p2", "p3", "sev2", "sev3", "sev-2", "sev-3", "s2", "s3":
		return state.Warning
	case "info", "informational", "information", "notice", "none", "low", "minor", "debug", "log", "p4", "p5", "sev4", "sev5", "sev-4", "sev-5", "s4":
		return state.Info
	}
	return ""
}

func severityOf(labels map[string]string, fallback state.Severity) state.Severity {
	for _, key := range []string{"severity", "priority", "level"} {
		if s := severity(labels[key]); s != "" {
			return s
		}
	}
	return fallback
}

var (
	xidWord = regexp.MustCompile(`(?i)\bxid\b[^0-9]{0,24}([0-9]{1,3})\b`)
	xidCode = regexp.MustCompile(`^[0-9]{1,3}$`)
)

// xidOf returns the driver error that an alert carries: from the exporter's labels, or from the
// rule's annotations.
func xidOf(a state.Alert, s state.Symptom) string {
	if s != "gpu_hardware" {
		return ""
	}
	for _, key := range []string{"xid", "err_code", "error_code"} {
		if v := a.Labels[key]; xidCode.MatchString(v) && v != "0" {
			return v
		}
	}
	for _, key := range []string{"summary", "description", "message"} {
		text := a.Annotations[key]
		if m := xidWord.FindStringSubmatch(text[:min(len(text), 2048)]); m != nil && m[1] != "0" {
			return m[1]
		}
	}
	return ""
}

// xidHints stores the alert's driver error, and the recovery that the driver requests if the alert
// quotes it. A rule on the sticky gauge does not show when the error occurred.
func (c *Catalog) xidHints(s *state.Sign, a state.Alert) {
	code := xidOf(a, s.Symptom)
	if code == "" {
		return
	}
	s.Hints["xid"] = code
	n, _ := strconv.Atoi(code) // xidOf returns only digits
	x := c.xids[n]
	if name := text.Phrase(a.Name()); name != "" && x.Class == "notice" {
		s.Hints["rule"] = name
	}
	var asked *Recovery
	for _, text := range []string{a.Labels["err_msg"], a.Annotations["summary"], a.Annotations["description"], a.Annotations["message"]} {
		if r := c.askedFor(text[:min(len(text), 2048)]); asked == nil {
			asked = r
		}
	}
	over := asked != nil && asked.ID == "none" // the driver reports that no action is needed any more
	if asked != nil && !over {
		s.Hints["gpu_recovery"] = asked.Driver
	}
	if s.Hints["sticky_xid"] == "" && !(over && x.Needs == "ask_the_driver") {
		s.Hints[xidHint(code, s.Entity)] = code
	}
}

// groupOf returns a key that separates alerts unrelated to inference: those of one rule and one
// place share it.
func groupOf(a state.Alert) string {
	parts := []string{a.Name()}
	for _, key := range []string{"namespace", "service", "job"} {
		parts = append(parts, a.Labels[key])
	}
	return state.Hash(parts...)
}
