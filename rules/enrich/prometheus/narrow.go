package prometheus

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// narrow is what may be left out of a query for a scope.
type narrow struct {
	state.Scope
	pods string // a regular expression that all pods of the scope match; empty where nobody knows one
	// engines are the kinds of engine that run in those pods; nil where nobody knows.
	engines map[string]bool
	// began is when the first of those pods, or of all in the scope, was first scraped, of the time that is looked at; zero where nobody knows.
	began time.Time
}

// asks says whether a source can have anything: a pool of one engine has no series of another.
func (n narrow) asks(src rules.Source) bool {
	return n.engines == nil || n.engines[src.Engine] || !slices.Contains(engines, src.Engine)
}

// engines are the kinds that report by themselves what runs on them.
var engines = []string{"vllm", "sglang", "trtllm"}

// few is how many pods a query names one by one.
const few = 8

// matchers are those that keep a source's series to the scope, as far as their labels can be trusted to be there: one that a fleet does
// not set must not empty the evidence. Two sets are alternatives: the workload's namespace may be in either of two labels.
func (n narrow) matchers(src rules.Source, per rules.Per) [][]string {
	if n.Namespace == "" || per == rules.PerNode {
		return [][]string{nil}
	}
	namespace := func(label string) string { return label + "=" + strconv.Quote(n.Namespace) }
	absentOr := func(label string) string { return label + "=~" + strconv.Quote(regexp.QuoteMeta(n.Namespace)+"|") }
	switch src.Engine {
	case "kube_state":
		own, exported := []string{namespace("namespace")}, []string{namespace("exported_namespace")}
		if per == rules.PerPod && n.pods != "" {
			own, exported = n.ofPods(own), append(exported, "exported_pod=~"+strconv.Quote(n.pods))
		}
		return [][]string{own, exported}
	case "ingress":
		return [][]string{
			{namespace("destination_service_namespace")},
			{`destination_service_namespace=""`, namespace("exported_namespace")},
			{`destination_service_namespace=""`, `exported_namespace=""`, namespace("namespace")},
		}
	case "cadvisor":
		return [][]string{n.ofPods([]string{namespace("namespace")})}
	case "dcgm":
		m := []string{absentOr("exported_namespace")}
		if n.pods != "" && len(n.Nodes) == 0 { // a machine's GPUs count whoever runs on them
			m = append(m, "exported_pod=~"+strconv.Quote(n.pods+"|"))
		}
		return [][]string{m}
	case "process":
		return [][]string{n.ofPods([]string{absentOr("namespace")})}
	}
	if slices.Contains(engines, src.Engine) {
		return [][]string{n.ofPods([]string{absentOr("namespace")})}
	}
	return [][]string{{absentOr("namespace")}}
}

func (n narrow) ofPods(matchers []string) []string {
	if n.pods == "" {
		return matchers
	}
	return append(matchers, "pod=~"+strconv.Quote(n.pods))
}

// named is the scope of its own pods alone; false where there are none, or too many.
func (n narrow) named() (narrow, bool) {
	if len(n.Pods) == 0 || len(n.Pods) > few {
		return narrow{}, false
	}
	var all []string
	for _, p := range n.Pods {
		all = append(all, regexp.QuoteMeta(p))
	}
	n.pods = strings.Join(all, "|") + "|" // and what has no such label
	return n, true
}

// narrow asks since when there are engines and which, and takes the pool's name as the beginning of its pods' names where that is what is
// seen: a namespace with many pools costs many times what the pool alone does. Where nobody answers, or names are given otherwise, the whole
// namespace is read.
func (c *Client) narrow(ctx context.Context, q enrich.Query) narrow {
	scope, prefix := q.Scope, q.Scope.Pool+"-"
	named := scope.Namespace != "" && scope.Pool != "" && !slices.ContainsFunc(scope.Pods, func(pod string) bool { return !strings.HasPrefix(pod, prefix) })
	var namespace, pods []string
	if scope.Namespace != "" {
		namespace = []string{"namespace=" + strconv.Quote(scope.Namespace)}
	}
	own := regexp.QuoteMeta(prefix) + ".*"
	if named {
		pods = []string{"pod=~" + strconv.Quote(own)}
	}
	window := fmt.Sprintf("[%ds:1m]", int(lookBack.Seconds()))
	if ago := int(q.Now.Sub(q.Onset).Seconds()); ago > 0 { // Prometheus 2 takes no offset of nothing
		window += fmt.Sprintf(" offset %ds", ago)
	}
	var parts []string
	for _, src := range q.Running.Sources {
		if !slices.Contains(engines, src.Engine) {
			continue
		}
		first := "timestamp(" + selector(src.Metric, namespace, pods) + ")" + window
		parts = append(parts, marked("min(min_over_time("+first+"))", src.Engine+under))
		if named {
			parts = append(parts, marked("max by (pod) ("+selector(src.Metric, namespace)+")", src.Engine))
		}
	}
	if len(parts) == 0 {
		return narrow{Scope: scope}
	}
	var began time.Time // of the pool's pods, or of all
	found, unnamed := map[string]bool{}, false
	for _, s := range c.ask(ctx, job{query: either(parts), at: q.Now}).series {
		engine, first := strings.CutSuffix(s.labels[marker], under)
		switch pod := s.labels["pod"]; {
		case first:
			if at := time.UnixMilli(int64(1000 * s.points[0].v)).UTC(); began.IsZero() || at.Before(began) {
				began = at
			}
		case pod == "":
			unnamed = true // an engine that nothing but its address names may be one of the pool
		case strings.HasPrefix(pod, prefix):
			found[engine] = true
		}
	}
	switch {
	case !named:
		return narrow{Scope: scope, began: began}
	case unnamed || len(found) == 0:
		return narrow{Scope: scope}
	}
	return narrow{Scope: scope, pods: own, engines: found, began: began}
}

// selector selects a metric's series.
func selector(metric string, matchers ...[]string) string {
	return metric + "{" + strings.Join(slices.Concat(matchers...), ",") + "}"
}
