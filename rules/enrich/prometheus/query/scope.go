package query

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A Filter restricts queries to a scope. The zero value restricts nothing.
type Filter struct {
	of   state.Scope
	pods string // a regular expression that matches all pods of the scope; empty if there is none
	// engines are the kinds of engine that run in those pods; nil if unknown.
	engines map[string]bool
	relay   relay // of the workers' pages
	// spelled are the forms of each engine's names; its own if nil.
	spelled map[string][]promql.Spelling
}

// canHave reports whether a source can have series. A pool of one engine has no series of another.
func (n Filter) canHave(src signals.Source) bool {
	return n.engines == nil || n.engines[src.Engine] || !slices.Contains(engines, src.Engine)
}

// engines are the kinds of engine that export metrics of their own pods.
var engines = []string{"vllm", "sglang", "trtllm"}

// OfEngine reports whether the member reads a metric that an engine exports of its own pod.
func (m *Member) OfEngine() bool { return slices.Contains(engines, m.Source.Engine) }

// maxNamedPods limits the pods that a query names one by one.
const maxNamedPods = 8

// matchers returns the matchers that restrict a source's series to the scope. They use only labels
// that exist for sure, so that a fleet that does not set a label still gets evidence. Several sets
// are alternatives, because different labels may hold the workload's namespace.
func (n Filter) matchers(src signals.Source, per signals.Per) [][]string {
	if n.of.Namespace == "" || per == signals.PerNode {
		return [][]string{nil}
	}
	namespace := func(label string) string { return label + "=" + strconv.Quote(n.of.Namespace) }
	absentOr := func(label string) string { return label + "=~" + strconv.Quote(regexp.QuoteMeta(n.of.Namespace)+"|") }
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
			{`destination_service_namespace=""`, "envoy_cluster_name=~" + strconv.Quote(clustersIn(n.of.Namespace))},
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
		if n.pods != "" && len(n.of.Nodes) == 0 { // all GPUs of a node count
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

func (n Filter) ofPods(matchers []string) []string {
	if n.pods == "" {
		return matchers
	}
	return append(matchers, "pod=~"+strconv.Quote(n.pods))
}

// OnlyPool reports whether the filter selects the pods of one pool, and not a whole namespace or
// cluster.
func (n Filter) OnlyPool() bool { return n.pods != "" }

// ForNamedPods returns the member for only the pods that the filter's scope names. It returns false
// if there are none, or more than eight.
func (m *Member) ForNamedPods() (*Member, bool) {
	pods := m.filter.of.Pods
	if len(pods) == 0 || len(pods) > maxNamedPods {
		return nil, false
	}
	var all []string
	for _, p := range pods {
		all = append(all, regexp.QuoteMeta(p))
	}
	named := *m
	named.NamedPods = true
	named.filter.pods = strings.Join(all, "|") + "|" // also series without the label
	return &named, true
}

// byName reports whether the names of the pool's pods may begin with the pool's name.
func byName(s state.Scope) bool {
	return s.Namespace != "" && s.Pool != "" &&
		!slices.ContainsFunc(s.Pods, func(pod string) bool { return !strings.HasPrefix(pod, s.Pool+"-") })
}

// podSuffixes matches what follows a pool's name in the names of its pods: of a Deployment, of a
// StatefulSet or LeaderWorkerSet, and of a DaemonSet or a Ray group. See [topology.PoolOf].
const podSuffixes = "([a-z0-9]{6,10}-[a-z0-9]{5}|[0-9]{1,4}(-[0-9]{1,4})?|[a-z0-9]{5})"

// Filter returns the filter of a scope. If the discovery confirms it, the filter selects pods whose
// names begin with the pool's name. A namespace with many pools would be many times as expensive.
// Otherwise, the whole namespace is read.
func (d Discovery) Filter(of state.Scope) Filter {
	out := Filter{of: of, relay: d.relay}
	prefix := ""
	if byName(of) && !d.unnamed && len(d.engines) > 0 {
		out.pods, out.engines = d.podsOf(of.Pool), d.engines
		prefix = of.Pool + "-"
	}
	out.spelled = d.spellings(prefix)
	return out
}
