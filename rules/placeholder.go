package rules

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

// fixedPlaceholders are valid in any text of a cause. Evidence may also use its signals, such as
// {kv_usage} or {kv_usage.baseline}.
var fixedPlaceholders = []string{
	"cluster", "namespace", "model", "pool", "target", "pod", "pods", "node", "nodes", "gpu", "gpus", "workers", "broken",
	"of_workers", "full_in", "count", "total", "entity", "xid", "xid_title", "xid_name", "xid_meaning", "xid_action", "xid_asks", "xid_beside", "rule",
}

// Fixed placeholders that are valid only in evidence, which is about one entity, or only in texts
// about the whole verdict.
var ofEvidence, ofVerdicts = []string{"full_in", "count", "total"}, []string{"pods", "nodes", "gpus", "broken", "of_workers"}

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
	best         *marked // by the verdict, for titles and stories
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
		return text.Phrase(c.word(name, p))
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
		return text.Phrase(r.Text)
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
		return cmp.Or(s.Cluster, "the cluster")
	case "namespace":
		return cmp.Or(s.Namespace, "its namespace")
	case "model":
		return cmp.Or(s.Model, target(s))
	case "pool":
		return cmp.Or(s.Pool, target(s))
	case "target":
		return target(s)
	case "workers":
		return strconv.Itoa(p.view.workers)
	case "count":
		return strconv.Itoa(p.count)
	case "total":
		return strconv.Itoa(p.total)
	case "rule":
		return cmp.Or(p.view.facts.hints["rule"], "the rule")
	}
	if strings.HasPrefix(name, "xid") {
		return c.xidWord(name, p)
	}
	if p.best == nil && p.group != nil {
		switch name {
		case "pod":
			return cmp.Or(p.group.pod, "a worker")
		case "node":
			return cmp.Or(p.group.node, "a node")
		case "gpu":
			return cmp.Or(p.group.gpu, "a GPU")
		case "entity":
			return cmp.Or(p.group.name(), target(s))
		case "full_in":
			return p.group.memoryFullIn()
		}
	}
	if p.best == nil {
		return "unknown"
	}
	return p.best.word(name, p.view)
}

// A marked holds the entities that a verdict marks as broken.
type marked struct {
	pods, nodes, gpus []string
	ofMachine         bool // the cause is about GPUs or nodes
}

func (w *marked) word(name string, v *view) string {
	switch name {
	case "pod", "pods":
		return cmp.Or(text.List(w.pods), "a worker")
	case "node", "nodes":
		return cmp.Or(text.List(w.broken(v)), "a node")
	case "gpu", "gpus":
		return cmp.Or(text.List(w.gpus), "a GPU")
	case "entity":
		if len(w.gpus) > 0 && len(w.nodes) > 0 {
			return "GPU " + text.List(w.gpus) + " on " + text.List(w.nodes)
		}
		return cmp.Or(text.List(w.broken(v)), text.List(w.pods), target(v.scope))
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
func (w *marked) broken(v *view) []string {
	if len(w.nodes) == 0 && w.ofMachine {
		return v.scope.Nodes
	}
	return w.nodes
}

// target returns the most specific known name of the affected scope.
func target(s state.Scope) string {
	return cmp.Or(s.Model, s.Pool, text.List(s.Pods), text.List(s.Nodes), s.Namespace, "the fleet")
}

// quantity formats a value with its unit. Counts have no unit, since the sentence names it.
func quantity(v float64, unit string) string {
	switch unit {
	case "requests", "tokens", "blocks", "pods", "events":
		unit = ""
	}
	return state.FormatValue(v, unit)
}
