package query

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// A relay names the labels of the workers' series that hold their namespace and pod. If Prometheus
// scrapes the page of a collector, the usual labels are those of the collector.
type relay struct{ namespace, pod string }

// The relays. Without honor_labels, Prometheus renames the labels that a collector's page has. The
// OpenTelemetry collector describes the worker with k8s labels.
var (
	direct = relay{}
	relays = []relay{{"exported_namespace", "exported_pod"}, {"k8s_namespace_name", "k8s_pod_name"}}
)

// relayMark precedes the index of a relay in the mark of its part.
const relayMark = "relay"

// relayOf returns the relay of a source's series: pages of workers and of what routes to them.
func (n Filter) relayOf(src signals.Source) relay {
	if slices.Contains([]string{"process", target, "dynamo", "epp"}, src.Engine) || slices.Contains(engines, src.Engine) {
		return n.relay
	}
	return direct
}

// ofWorkers returns the matchers for a source's relayed series.
func (r relay) ofWorkers(src signals.Source, n Filter) []string {
	out := []string{r.namespace + "=" + strconv.Quote(n.of.Namespace)}
	if n.pods != "" && (src.Engine == "process" || slices.Contains(engines, src.Engine)) {
		out = append(out, r.pod+"=~"+strconv.Quote(n.pods))
	}
	return out
}

// relayed returns the discovery's parts for relayed engines.
func relayed(names engineNames, scope state.Scope) []string {
	var out []string
	for i, r := range relays {
		in := []string{r.pod + `!=""`, `pod!=""`}
		if scope.Namespace != "" {
			in = append(in, r.namespace+"="+strconv.Quote(scope.Namespace))
		}
		out = append(out, marked("max by (__name__, pod, "+r.pod+") ("+names.selector(in)+")", relayMark+strconv.Itoa(i)))
	}
	return out
}

// isRelayed reports whether the labels pod and namespace of an engine's series are a collector's.
func isRelayed(labels map[string]string) bool {
	return slices.ContainsFunc(relays, func(r relay) bool {
		return labels[r.pod] != "" && labels["pod"] != "" && labels[r.pod] != labels["pod"]
	})
}

// A sighting describes the engines whose pods have a place of their own: which kinds run in pods
// whose names begin with the pool's, and whether there is an engine without a pod.
type sighting struct {
	engines map[string]bool
	named   map[podName]bool
	longer  bool // another pool's name begins with this one's
	unnamed bool
	any     bool
}

// add adds an engine.
func (s *sighting) add(name engineName, pod, pool string) {
	s.any = true
	s.name(podName{name, pod})
	switch {
	case pod == "":
		s.unnamed = true // an engine with only an address may belong to the pool
	case strings.HasPrefix(pod, pool+"-"):
		if of := topology.PoolOf(pod); of != "" && of != pool && topology.PoolOf(of) != pool {
			s.longer = true
			return
		}
		if s.engines == nil {
			s.engines = map[string]bool{}
		}
		s.engines[name.engine] = true
	}
}

// podsOf returns a regular expression for the names of a pool's pods.
func (s sighting) podsOf(pool string) string {
	if s.longer {
		return regexp.QuoteMeta(pool+"-") + podSuffixes
	}
	return regexp.QuoteMeta(pool+"-") + ".*"
}
