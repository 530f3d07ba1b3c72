package prometheus

import (
	"context"
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
	// began is when the first of the scope's engines was first scraped, of the time that is looked
	// at; zero where nobody knows.
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

// matchers are those that keep a source's series to the scope, as far as their labels can be
// trusted to be there: one that a fleet does not set must not empty the evidence. Two sets are
// alternatives: the workload's namespace may be in either of two labels.
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

// A look is what is seen of the engines where a scope is: when each was first scraped of the time
// that is looked at, which kinds run in pods that are called as the scope's pool is, and whether
// there is one without a pod.
type look struct {
	scraped []scraped
	engines map[string]bool
	unnamed bool
	jobs    []enrich.Scraped // of the jobs that are asked for, in the last hours
}

// look asks which engines there are, and since when there are samples where something is compared
// with the past. It says whether all was answered.
func (c *Client) look(ctx context.Context, q enrich.Query, out *enrich.Reading) (look, bool) {
	named, compared := byName(q.Scope), comparing(q)
	var in []string
	if q.Scope.Namespace != "" {
		in = []string{"namespace=" + strconv.Quote(q.Scope.Namespace)}
	}
	var parts []string
	for _, src := range q.Running.Sources {
		b := builder{sig: q.Running, src: src, narrow: in}
		if !slices.Contains(engines, src.Engine) {
			continue
		}
		if named {
			parts = append(parts, marked("max by (pod) ("+b.sel(src.Metric, nil)+")", src.Engine))
		}
		if compared {
			parts = append(parts, marked(firstScrapes(b, q), src.Engine+under))
		}
	}
	if len(q.Jobs) > 0 {
		parts = append(parts, marked(earlierTargets(q, in), target))
	}
	if len(parts) == 0 {
		return look{}, true
	}
	got := c.ask(ctx, job{query: either(parts), at: q.Now})
	if got.err != nil && compared {
		out.Notes = append(out.Notes, state.Missing{Signal: string(baseline), Reason: "since when there are samples: " + enrich.Explain("Prometheus", got.err)})
	}
	l := look{engines: map[string]bool{}}
	for _, s := range got.series {
		engine, first := strings.CutSuffix(s.labels[marker], under)
		switch pod := s.labels["pod"]; {
		case engine == target:
			l.jobs = append(l.jobs, scrapedBy(q.Cluster, s.labels))
		case first:
			l.scraped = append(l.scraped, scraped{pod, s.labels["model_name"], time.UnixMilli(int64(1000 * s.points[0].v)).UTC()})
		case pod == "":
			l.unnamed = true // an engine that nothing but its address names may be one of the pool
		case strings.HasPrefix(pod, q.Scope.Pool+"-"):
			l.engines[engine] = true
		}
	}
	return l, got.err == nil && !got.partial
}

// comparing says whether a query asks for anything that is compared with the past.
func comparing(q enrich.Query) bool {
	return !q.Fresh && slices.ContainsFunc(q.Signals, rules.Signal.Compared)
}

// byName says whether the scope's pool may be told by the beginning of its pods' names.
func byName(s state.Scope) bool {
	return s.Namespace != "" && s.Pool != "" && !slices.ContainsFunc(s.Pods, func(pod string) bool { return !strings.HasPrefix(pod, s.Pool+"-") })
}

// narrowed takes the pool's name as the beginning of its pods' names where that is what is seen: a
// namespace with many pools costs many times what the pool alone does. Where nobody answers, or
// names are given otherwise, the whole namespace is read.
func narrowed(q enrich.Query, l look) narrow {
	scope := narrow{Scope: q.Scope, began: since(l.scraped, q.Scope)}
	if byName(q.Scope) && !l.unnamed && len(l.engines) > 0 {
		scope.pods, scope.engines = regexp.QuoteMeta(q.Scope.Pool+"-")+".*", l.engines
	}
	return scope
}
