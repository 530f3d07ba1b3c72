package prometheus

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

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

// narrow asks which engines there are, and takes the pool's name as the beginning of its pods' names where that is what is seen: a
// namespace with many pools costs many times what the pool alone does. Where nobody answers, or names are given otherwise, the whole
// namespace is read.
func (c *Client) narrow(ctx context.Context, q enrich.Query) narrow {
	scope := q.Scope
	out := narrow{Scope: scope}
	if len(q.Running.Sources) == 0 || scope.Namespace == "" || scope.Pool == "" {
		return out
	}
	prefix := scope.Pool + "-"
	if slices.ContainsFunc(scope.Pods, func(pod string) bool { return !strings.HasPrefix(pod, prefix) }) {
		return out
	}
	var parts []string
	for _, src := range q.Running.Sources {
		if slices.Contains(engines, src.Engine) {
			sel := "max by (pod) (" + src.Metric + "{namespace=" + strconv.Quote(scope.Namespace) + "})"
			parts = append(parts, fmt.Sprintf(`label_replace(%s, "%s", "%s", "", "")`, sel, marker, src.Engine))
		}
	}
	found := map[string]bool{}
	for _, s := range c.ask(ctx, job{query: strings.Join(parts, "\nor\n"), at: q.Now}).series {
		pod := s.labels["pod"]
		if pod == "" {
			return out // an engine that nothing but its address names may be one of the pool
		}
		if strings.HasPrefix(pod, prefix) {
			found[s.labels[marker]] = true
		}
	}
	if len(found) > 0 {
		out.pods, out.engines = regexp.QuoteMeta(prefix)+".*", found
	}
	return out
}
