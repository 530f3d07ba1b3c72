package evidence

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/signals"
	"paramedic/rules/topology"
)

// A Words holds the values for a text.
type Words struct {
	View         *View
	Group        *Subject
	Count, Total int
	Best         *Marked // by the verdict, for titles and stories
}

// manyRequests matches a number of requests in a text.
var manyRequests = regexp.MustCompile(`\{([a-z0-9_.]+)\} requests( run| wait)?\b`)

// singular changes "requests" to the singular if the number is one.
func singular(c *catalog.Catalog, s string, p Words) string {
	if p.Group == nil || !strings.Contains(s, "} requests") {
		return s
	}
	return manyRequests.ReplaceAllStringFunc(s, func(m string) string {
		sub := manyRequests.FindStringSubmatch(m)
		base, field, _ := strings.Cut(sub[1], ".")
		switch unit, ok := c.Units()[base]; {
		case !ok || p.Group.format(base, field, unit) != "1":
			return m
		case sub[2] == "":
			return "1 request"
		}
		return "1 request" + sub[2] + "s"
	})
}

// Fill replaces placeholders by their values. Placeholders inside values are not replaced, and
// control characters are removed.
func Fill(c *catalog.Catalog, s string, p Words) string {
	return catalog.PlaceholderForm.ReplaceAllStringFunc(singular(c, s, p), func(m string) string {
		name := m[1 : len(m)-1]
		base, field, _ := strings.Cut(name, ".")
		if unit, ok := c.Units()[base]; ok && p.Group != nil {
			return p.Group.format(base, field, unit)
		}
		return text.Phrase(word(c, name, p))
	})
}

func (g *Subject) format(signal, field, unit string) string {
	r := g.Reading(signal)
	if r == nil {
		return "unknown"
	}
	if field == "text" || field == "" && r.HasText() {
		if !r.HasText() {
			return "unknown"
		}
		return text.Phrase(r.Text)
	}
	n := r.Field(field)
	if !n.Ok && field == "" {
		n = r.Max
	}
	if !n.Ok {
		return "unknown"
	}
	if field == "count" || field == "z" || field == "sum" && unit == "bool" { // a sum of booleans is a count
		unit = ""
	}
	return signals.Quantity(n.V, unit)
}

// memoryFullIn returns the time until the container reaches its memory limit at the present growth.
func (g *Subject) memoryFullIn() string {
	of := func(signal string) condition.Number {
		if r := g.Reading(signal); r != nil {
			return r.CurrentValue()
		}
		return condition.Number{}
	}
	used, limit, slope := of("container_memory"), of("container_memory_limit"), of("container_memory_slope")
	if !used.Ok || !limit.Ok || !slope.Ok || slope.V <= 0 {
		return "an unknown time"
	}
	return signals.Quantity(math.Max(0, limit.V-used.V)/slope.V, "s")
}

func word(c *catalog.Catalog, name string, p Words) string {
	s := p.View.scope
	switch name {
	case "cluster":
		return cmp.Or(s.Cluster, "the cluster")
	case "namespace":
		return cmp.Or(s.Namespace, "its namespace")
	case "model":
		return cmp.Or(s.Model, topology.Target(s))
	case "pool":
		return cmp.Or(s.Pool, topology.Target(s))
	case "target":
		return topology.Target(s)
	case "workers":
		return strconv.Itoa(p.View.workers)
	case "count":
		return strconv.Itoa(p.Count)
	case "total":
		return strconv.Itoa(p.Total)
	case "rule":
		return cmp.Or(p.View.facts.Hints["rule"], "the rule")
	}
	if strings.HasPrefix(name, "xid") {
		return xidWord(c, name, p)
	}
	if p.Best == nil && p.Group != nil {
		switch name {
		case "pod":
			return cmp.Or(p.Group.pod, "a worker")
		case "node":
			return cmp.Or(p.Group.node, "a node")
		case "gpu":
			return cmp.Or(p.Group.gpu, "a GPU")
		case "entity":
			return cmp.Or(p.Group.Name(), topology.Target(s))
		case "full_in":
			return p.Group.memoryFullIn()
		}
	}
	if p.Best == nil {
		return "unknown"
	}
	return p.Best.word(name, p.View)
}

// A Marked holds the entities that a verdict marks as broken.
type Marked struct {
	Pods, Nodes, Gpus []string
	OfMachine         bool // the cause is about GPUs or nodes
}

func (w *Marked) word(name string, v *View) string {
	switch name {
	case "pod", "pods":
		return cmp.Or(text.List(w.Pods), "a worker")
	case "node", "nodes":
		return cmp.Or(text.List(w.broken(v)), "a node")
	case "gpu", "gpus":
		return cmp.Or(text.List(w.Gpus), "a GPU")
	case "entity":
		if len(w.Gpus) > 0 && len(w.Nodes) > 0 {
			return "GPU " + text.List(w.Gpus) + " on " + text.List(w.Nodes)
		}
		return cmp.Or(text.List(w.broken(v)), text.List(w.Pods), topology.Target(v.scope))
	case "broken":
		return strconv.Itoa(v.EnginesOf(w.Pods))
	case "of_workers":
		if len(w.Pods) == 0 || v.workers == 0 {
			return ""
		}
		noun := "workers"
		if v.workers == 1 {
			noun = "worker"
		}
		return fmt.Sprintf(" (%d of %d %s)", v.EnginesOf(w.Pods), v.workers, noun)
	}
	return "unknown"
}

// broken returns the nodes that the cause found broken. If it found none but is about GPUs or
// nodes, it returns those of the alerts.
func (w *Marked) broken(v *View) []string {
	if len(w.Nodes) == 0 && w.OfMachine {
		return v.scope.Nodes
	}
	return w.Nodes
}
