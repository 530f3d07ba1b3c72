package rules

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	show "paramedic/internal/text"
	"paramedic/state"
)

// fixedPlaceholders are valid in any text of a cause. Evidence may also use its signals, such as
// {kv_usage} or {kv_usage.baseline}.
var fixedPlaceholders = []string{
	"cluster", "namespace", "model", "pool", "target", "pod", "pods", "node", "nodes", "gpu", "gpus", "workers",
	"broken", "of_workers", "full_in", "count", "total", "entity", "xid", "xid_title", "xid_name", "xid_meaning",
	"xid_action", "xid_asks", "xid_beside", "rule",
}

// Fixed placeholders that are valid only in evidence, which is about one entity, or only in texts
// about the whole verdict.
var ofEvidence, ofVerdicts = []string{"full_in", "count", "total"}, []string{"pods", "nodes", "gpus", "broken",
	"of_workers"}

var placeholderForm = regexp.MustCompile(`\{([a-z0-9_.]+)\}`)

func placeholders(s string) []string {
	var out []string
	for _, m := range placeholderForm.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

// A placeholder holds the values for a text.
type placeholder struct {
	view         *view
	group        *group
	count, total int
	best         *weighed // the verdict, for titles and stories
}

// manyRequests matches a number of requests in a text.
var manyRequests = regexp.MustCompile(`\{([a-z0-9_.]+)\} requests( run| wait)?\b`)

// singular changes "requests" to the singular if the number is one.
func (c *Catalog) singular(s string, p placeholder) string {
	if p.group == nil || !strings.Contains(s, "} requests") {
		return s
	}
	return manyRequests.ReplaceAllStringFunc(s, func(m string) string {
		sub := manyRequests.FindStringSubmatch(m)
		base, field, _ := strings.Cut(sub[1], ".")
		switch unit, ok := c.units[base]; {
		case !ok || p.group.format(base, field, unit) != "1":
			return m
		case sub[2] == "":
			return "1 request"
		}
		return "1 request" + sub[2] + "s"
	})
}

// fill replaces placeholders by their values. Placeholders inside values are not replaced, and
// control characters are removed.
func (c *Catalog) fill(s string, p placeholder) string {
	return placeholderForm.ReplaceAllStringFunc(c.singular(s, p), func(m string) string {
		name := m[1 : len(m)-1]
		base, field, _ := strings.Cut(name, ".")
		if unit, ok := c.units[base]; ok && p.group != nil {
			return p.group.format(base, field, unit)
		}
		return plain(c.word(name, p))
	})
}

func (g *group) format(signal, field, unit string) string {
	r := g.reading(signal)
	if r == nil {
		return "unknown"
	}
	if field == "text" || field == "" && r.hasText() {
		if !r.hasText() {
			return "unknown"
		}
		return plain(r.Text)
	}
	n := r.number(field)
	if !n.ok && field == "" {
		n = r.max
	}
	if !n.ok {
		return "unknown"
	}
	if field == "count" || field == "z" || field == "sum" && unit == "bool" { // a sum of booleans is a count
		unit = ""
	}
	return quantity(n.v, unit)
}

// memoryFullIn returns the time until the container reaches its memory limit at the present growth.
func (g *group) memoryFullIn() string {
	of := func(signal string) number {
		if r := g.reading(signal); r != nil {
			return r.value()
		}
		return number{}
	}
	used, limit, slope := of("container_memory"), of("container_memory_limit"), of("container_memory_slope")
	if !used.ok || !limit.ok || !slope.ok || slope.v <= 0 {
		return "an unknown time"
	}
	return quantity(math.Max(0, limit.v-used.v)/slope.v, "s")
}

func (c *Catalog) word(name string, p placeholder) string {
	s := p.view.scope
	switch name {
	case "cluster":
		return or(s.Cluster, "the cluster")
	case "namespace":
		return or(s.Namespace, "its namespace")
	case "model":
		return or(s.Model, target(s))
	case "pool":
		return or(s.Pool, target(s))
	case "target":
		return target(s)
	case "workers":
		return strconv.Itoa(p.view.workers)
	case "count":
		return strconv.Itoa(p.count)
	case "total":
		return strconv.Itoa(p.total)
	case "rule":
		return or(p.view.facts.hints["rule"], "the rule")
	}
	if strings.HasPrefix(name, "xid") {
		return c.xidWord(name, p)
	}
	if p.best == nil && p.group != nil {
		switch name {
		case "pod":
			return or(p.group.pod, "a worker")
		case "node":
			return or(p.group.node, "a node")
		case "gpu":
			return or(p.group.gpu, "a GPU")
		case "entity":
			return or(p.group.name(), target(s))
		case "full_in":
			return p.group.memoryFullIn()
		}
	}
	if p.best == nil {
		return "unknown"
	}
	return p.best.word(name, p.view)
}

func (w *weighed) word(name string, v *view) string {
	switch name {
	case "pod", "pods":
		return or(names(w.pods), "a worker")
	case "node", "nodes":
		return or(names(w.broken(v)), "a node")
	case "gpu", "gpus":
		return or(names(w.gpus), "a GPU")
	case "entity":
		if len(w.gpus) > 0 && len(w.nodes) > 0 {
			return "GPU " + names(w.gpus) + " on " + names(w.nodes)
		}
		return or(names(w.broken(v)), names(w.pods), target(v.scope))
	case "broken":
		return strconv.Itoa(v.enginesOf(w.pods))
	case "of_workers":
		if len(w.pods) == 0 || v.workers == 0 {
			return ""
		}
		noun := "workers"
		if v.workers == 1 {
			noun = "worker"
		}
		return fmt.Sprintf(" (%d of %d %s)", v.enginesOf(w.pods), v.workers, noun)
	}
	return "unknown"
}

// broken returns the nodes that the cause found broken. If it found none but is about GPUs or
// nodes, it returns those of the alerts.
func (w *weighed) broken(v *view) []string {
	if len(w.nodes) == 0 && (w.cause.Scope == "gpu" || w.cause.Scope == "node") {
		return v.scope.Nodes
	}
	return w.nodes
}

// target returns the most specific known name of the affected scope.
func target(s state.Scope) string {
	return or(s.Model, s.Pool, names(s.Pods), names(s.Nodes), s.Namespace, "the fleet")
}

// names joins a list; beyond three it names two and counts the others.
func names(list []string) string {
	if len(list) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:2], ", "), len(list)-2)
	}
	return strings.Join(list, ", ")
}

func or(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// plain returns foreign text as one short line. It keeps a leading space, which separates some
// words from the text before them.
func plain(s string) string {
	line := show.Line(s, 160)
	if line != "" && s[0] == ' ' {
		return " " + line
	}
	return line
}

// printable returns foreign text of any length on one line.
func printable(s string) string { return show.Clean(s) }

// quantity formats a value with its unit. Counts have no unit, since the sentence names it.
func quantity(v float64, unit string) string {
	switch unit {
	case "requests", "tokens", "blocks", "pods", "events":
		unit = ""
	}
	return state.FormatValue(v, unit)
}
