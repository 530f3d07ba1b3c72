package prometheus

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"paramedic/rules/enrich"
	"paramedic/rules/promql"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A scopeFilter restricts queries to a scope.
type scopeFilter struct {
	state.Scope
	pods string // a regular expression that matches all pods of the scope; empty if there is none
	// engines are the kinds of engine that run in those pods; nil if unknown.
	engines map[string]bool
	// began is the time of the first scrape of the scope's engines within the searched range; zero
	// if unknown.
	began time.Time
	relay relay // of the workers' pages
	// spelled are the forms of each engine's names; its own if nil.
	spelled map[string][]promql.Spelling
}

// canHave reports whether a source can have series. A pool of one engine has no series of another.
func (n scopeFilter) canHave(src signals.Source) bool {
	return n.engines == nil || n.engines[src.Engine] || !slices.Contains(engines, src.Engine)
}

// engines are the kinds of engine that export metrics of their own pods.
var engines = []string{"vllm", "sglang", "trtllm"}

// maxNamedPods limits the pods that a query names one by one.
const maxNamedPods = 8

// matchers returns the matchers that restrict a source's series to the scope. They use only labels
// that exist for sure, so that a fleet that does not set a label still gets evidence. Several sets
// are alternatives, because different labels may hold the workload's namespace.
func (n scopeFilter) matchers(src signals.Source, per signals.Per) [][]string {
	if n.Namespace == "" || per == signals.PerNode {
		return [][]string{nil}
	}
	namespace := func(label string) string { return label + "=" + strconv.Quote(n.Namespace) }
	absentOr := func(label string) string { return label + "=~" + strconv.Quote(regexp.QuoteMeta(n.Namespace)+"|") }
	switch src.Engine {
	case "kube_state":
		own, exported := []string{namespace("namespace")}, []string{namespace("exported_namespace")}
		if per == signals.PerPod && n.pods != "" {
			own, exported = n.ofPods(own), append(exported, "exported_pod=~"+strconv.Quote(n.pods))
		}
		return [][]string{own, exported}
	case "ingress":
		return [][]string{
			{namespace("destination_service_namespace")},
			{`destination_service_namespace=""`, "envoy_cluster_name=~" + strconv.Quote(clustersIn(n.Namespace))},
			{`destination_service_namespace=""`, `envoy_cluster_name=""`, namespace("exported_namespace")},
			{`destination_service_namespace=""`, `envoy_cluster_name=""`, `exported_namespace=""`, namespace("namespace")},
		}
	case "cadvisor": // the kubelet's target may have a namespace of its own, but has no pod
		sets := [][]string{n.ofPods([]string{namespace("namespace")}), n.ofPods([]string{namespace("exported_namespace")})}
		if n.relay != direct && n.pods != "" { // but a collector has one
			sets = append(sets, []string{namespace("exported_namespace"), "exported_pod=~" + strconv.Quote(n.pods)})
		}
		return sets
	case "dcgm":
		m := []string{absentOr("exported_namespace")}
		if n.pods != "" && len(n.Nodes) == 0 { // all GPUs of a node count
			m = append(m, "exported_pod=~"+strconv.Quote(n.pods+"|"))
		}
		return [][]string{m}
	}
	if r := n.relayOf(src); r != direct {
		return [][]string{r.ofWorkers(src, n)}
	}
	if src.Engine == "process" || slices.Contains(engines, src.Engine) {
		return [][]string{n.ofPods([]string{absentOr("namespace")})}
	}
	return [][]string{{absentOr("namespace")}}
}

// clustersIn returns a regular expression for the names of Envoy's clusters that lead to a
// namespace.
// [topology.UpstreamOf] reads the same forms.
func clustersIn(namespace string) string {
	ns := regexp.QuoteMeta(namespace)
	return `[a-z]+route/` + ns + `/.*|outbound\|.*\.` + ns + `\.svc.*|` + ns + `/.*|kube_` + ns + `_.*`
}

func (n scopeFilter) ofPods(matchers []string) []string {
	if n.pods == "" {
		return matchers
	}
	return append(matchers, "pod=~"+strconv.Quote(n.pods))
}

// onlyNamedPods returns the scope of its named pods. It returns false if there are none, or too
// many.
func (n scopeFilter) onlyNamedPods() (scopeFilter, bool) {
	if len(n.Pods) == 0 || len(n.Pods) > maxNamedPods {
		return scopeFilter{}, false
	}
	var all []string
	for _, p := range n.Pods {
		all = append(all, regexp.QuoteMeta(p))
	}
	n.pods = strings.Join(all, "|") + "|" // also series without the label
	return n, true
}

// A discovery describes the engines of a scope: when each was first scraped, and which there are.
type discovery struct {
	sighting
	scraped []firstSample
	relay   relay            // of all engines
	jobs    []enrich.Scraped // targets of the query's jobs in the last hours
}

// discover queries the engines, and the start of their samples if a signal is compared with the
// past. It reports whether the answer was complete. If the server refuses the query, it asks again
// for what it needs most: which engines there are.
func (c *Client) discover(ctx context.Context, q enrich.Query, out *enrich.Reading) (discovery, bool) {
	var in []string
	if q.Scope.Namespace != "" {
		in = []string{"namespace=" + strconv.Quote(q.Scope.Namespace)}
	}
	names := namesOf(q.Running)
	if len(names) == 0 && len(q.Jobs) == 0 {
		return discovery{}, true
	}
	var present []string
	if len(names) > 0 {
		present = append(present, marked("max by (__name__, pod, exported_pod, k8s_pod_name) ("+names.selector(in)+")", engineMark))
		present = append(present, relayed(names, q.Scope)...)
	}
	if len(q.Jobs) > 0 {
		present = append(present, marked(earlierTargets(q, in), target))
	}
	if !comparing(q) {
		got := c.ask(ctx, plannedQuery{query: unionOf(present), at: q.Now})
		return discovered(q, names, got), got.err == nil && !got.partial
	}
	got := c.ask(ctx, plannedQuery{query: unionOf(slices.Concat(present, firstScrapes(q, in))), at: q.Now})
	if got.err != nil {
		out.Notes = append(out.Notes, state.Missing{Signal: string(baseline),
			Reason: "reading the oldest sample: " + enrich.Explain("Prometheus", got.err)})
		return discovered(q, names, c.ask(ctx, plannedQuery{query: unionOf(present), at: q.Now})), false
	}
	return discovered(q, names, got), !got.partial
}

// discovered reads the answer of a discovery.
func discovered(q enrich.Query, names engineNames, got answer) discovery {
	var l discovery
	through := make([]sighting, len(relays))
	for _, s := range got.series {
		mark, name := s.labels[marker], names[s.labels[model.MetricNameLabel]]
		number, another := strings.CutPrefix(mark, relayMark)
		earlier, first := strings.CutPrefix(mark, firstMark)
		switch i, _ := strconv.Atoi(number); {
		case mark == target:
			l.jobs = append(l.jobs, scrapedBy(q.Cluster, s.labels))
		case first:
			at := time.UnixMilli(int64(1000 * s.points[0].v)).UTC()
			l.scraped = append(l.scraped, firstSample{names[earlier], s.labels["pod"], s.labels["model_name"], at})
		case another && isRelayed(s.labels):
			through[i].add(name, s.labels[relays[i].pod], q.Scope.Pool)
		case mark == engineMark && !isRelayed(s.labels):
			l.add(name, s.labels["pod"], q.Scope.Pool)
		}
	}
	if i := slices.IndexFunc(through, func(s sighting) bool { return s.any }); i >= 0 && !l.any {
		l.sighting, l.relay = through[i], relays[i]
	}
	l.scraped = preferred(l.scraped)
	l.addGone(l.scraped)
	return l
}

// comparing reports whether a query includes signals that are compared with the past.
func comparing(q enrich.Query) bool {
	return !q.Fresh && slices.ContainsFunc(q.Signals, signals.Signal.Compared)
}

// byName reports whether the names of the pool's pods may begin with the pool's name.
func byName(s state.Scope) bool {
	return s.Namespace != "" && s.Pool != "" &&
		!slices.ContainsFunc(s.Pods, func(pod string) bool { return !strings.HasPrefix(pod, s.Pool+"-") })
}

// podSuffixes matches what follows a pool's name in the names of its pods: of a Deployment, of a
// StatefulSet or LeaderWorkerSet, and of a DaemonSet or a Ray group. See [topology.PoolOf].
const podSuffixes = "([a-z0-9]{6,10}-[a-z0-9]{5}|[0-9]{1,4}(-[0-9]{1,4})?|[a-z0-9]{5})"

// filterFor returns the filter of a scope. If the discovery confirms it, the filter selects pods
// whose names begin with the pool's name. A namespace with many pools would be many times as
// expensive. Otherwise, the whole namespace is read.
func filterFor(q enrich.Query, l discovery) scopeFilter {
	scope := scopeFilter{Scope: q.Scope, began: firstScrape(l.scraped, q.Scope), relay: l.relay}
	of := ""
	if byName(q.Scope) && !l.unnamed && len(l.engines) > 0 {
		scope.pods, scope.engines = l.podsOf(q.Scope.Pool), l.engines
		of = q.Scope.Pool + "-"
	}
	scope.spelled = l.spellings(of)
	return scope
}
