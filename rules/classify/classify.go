package classify

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/topology"
	"paramedic/state"
)

// Classify returns an alert's symptom and the entity that it is about. It never fails: an alert
// that matches no entry is unclassified.
func Classify(c *catalog.Catalog, a state.Alert, cluster string) state.Sign {
	read := c.ReadingOf(a.GeneratorURL)
	s := state.Sign{Symptom: state.Unclassified, By: "none", Hints: map[string]string{}}
	fallback := state.Warning
	if r, ok := c.AlertRules()[a.Name()]; ok {
		s.Symptom, s.By = r.Symptom, "name"
		maps.Copy(s.Hints, r.Hints)
		if r.Severity != "" {
			fallback = r.Severity
		}
		// The rule may differ from the known one of this name, but the metrics that it reads are a
		// fact.
		if m := read.Rule; m != nil && m.Symptom == s.Symptom {
			addHints(s.Hints, m.Hints)
		}
	} else if m := read.Rule; m != nil && m.Symptom != state.Unclassified {
		s.Symptom, s.By = m.Symptom, "metrics"
		addHints(s.Hints, m.Hints)
	} else if id, ok := byLabel(c, a); ok {
		s.Symptom, s.By = id, "labels"
	} else if id, ok := byWords(c, a); ok && m == nil { // words mean nothing if the rule is about another system
		s.Symptom, s.By = id, "labels"
	}
	s.Severity = catalog.SeverityOf(a.Labels, fallback)
	gpu := read.GPU || strings.HasPrefix(string(s.Symptom), "gpu_")
	s.Entity = topology.EntityOf(a, cluster, topology.Source{GPU: gpu, Picker: read.Picker || s.Symptom == "no_endpoints",
		Proxy: read.Proxy, Scrape: s.Symptom == "target_down"})
	if name := text.Phrase(a.Name()); name != "" && s.Hints["benign"] != "" {
		s.Hints["rule"] = name
	}
	xidHints(c, &s, a)
	if topology.Placeless(s.Entity) && !c.SymptomTable()[s.Symptom].Serving {
		s.Hints["group"] = groupOf(a)
	}
	if topology.Placeless(s.Entity) && s.Entity.Instance == "" && s.Entity.Job == "" {
		if len(read.Series) > 0 {
			s.Hints[state.SeriesHint] = strings.Join(read.Series, "\n")
		}
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

// byLabel reads the symptom from a label of the rule.
func byLabel(c *catalog.Catalog, a state.Alert) (state.Symptom, bool) {
	for _, key := range []string{"paramedic_symptom", "symptom"} {
		if _, ok := c.SymptomTable()[state.Symptom(a.Labels[key])]; ok {
			return state.Symptom(a.Labels[key]), true
		}
	}
	return "", false
}

// byWords reads the symptom from words in the name of the rule.
func byWords(c *catalog.Catalog, a state.Alert) (state.Symptom, bool) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, a.Name()[:min(len(a.Name()), 256)])
	for _, w := range c.WordRules() {
		if slices.ContainsFunc(w.Any, func(word string) bool { return strings.Contains(name, word) }) {
			return w.Symptom, true
		}
	}
	return "", false
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
		value := a.Annotations[key]
		if m := xidWord.FindStringSubmatch(value[:min(len(value), 2048)]); m != nil && m[1] != "0" {
			return m[1]
		}
	}
	return ""
}

// xidHints stores the alert's driver error, and the recovery that the driver requests if the alert
// quotes it. A rule on the sticky gauge does not show when the error occurred.
func xidHints(c *catalog.Catalog, s *state.Sign, a state.Alert) {
	code := xidOf(a, s.Symptom)
	if code == "" {
		return
	}
	s.Hints["xid"] = code
	n, _ := strconv.Atoi(code) // xidOf returns only digits
	x := c.XidTable()[n]
	if name := text.Phrase(a.Name()); name != "" && x.Class == "notice" {
		s.Hints["rule"] = name
	}
	var asked *catalog.Recovery
	for _, value := range []string{a.Labels["err_msg"], a.Annotations["summary"], a.Annotations["description"],
		a.Annotations["message"]} {
		if r := c.RecoveryFor(value[:min(len(value), 2048)]); asked == nil {
			asked = r
		}
	}
	over := asked != nil && asked.ID == "none" // the driver reports that no action is needed any more
	if asked != nil && !over {
		s.Hints["gpu_recovery"] = asked.Driver
	}
	if s.Hints["sticky_xid"] == "" && !(over && x.Needs == "ask_the_driver") {
		s.Hints[catalog.XIDHint(code, s.Entity)] = code
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
