package query

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/signals"
)

// The labels that identify the entity of a series. The queries aggregate over all other labels
// (ranks, finish reasons, containers).
var (
	// The OpenTelemetry collector gives series the last two.
	workerLabels = []string{"namespace", "kubernetes_namespace", "pod", "kubernetes_pod_name", "pod_name", "instance",
		"job", "model_name", "model", "node", "k8s_namespace_name", "k8s_pod_name"}
	poolLabels = []string{"namespace", "kubernetes_namespace", "model_name", "model", "k8s_namespace_name"}
	// Of relayed series, see [relay]. Their other labels are those of the collector.
	relayedWorkerLabels = []string{"exported_namespace", "exported_pod", "exported_instance", "exported_job", "model_name", "model",
		"k8s_namespace_name", "k8s_pod_name"}
	relayedPoolLabels = []string{"exported_namespace", "model_name", "model", "k8s_namespace_name"}
	gpuLabels         = []string{"namespace", "exported_namespace", "pod", "exported_pod", "gpu", "UUID", "node", "Hostname",
		"hostname"}
	podLabels   = []string{"namespace", "exported_namespace", "pod", "exported_pod"}
	nodeLabels  = []string{"node", "exported_node"}
	routeLabels = []string{"destination_service_namespace", "destination_service_name", "destination_workload_namespace",
		"destination_workload", "envoy_cluster_name", "exported_namespace", "exported_service", "namespace", "service", "ingress"}
	ownerLabels = []string{"namespace", "exported_namespace", "deployment", "statefulset", "replicaset"}
	// placeLabels place a series of any kind.
	placeLabels = slices.Compact(slices.Sorted(slices.Values(slices.Concat(workerLabels, gpuLabels, podLabels, routeLabels,
		ownerLabels, nodeLabels))))
)

// podInfo is the metric of kube-state-metrics with the pods' addresses and nodes.
const podInfo = "kube_pod_info"

func (m *Member) labels() []string {
	return labelsOf(m.Signal, m.Source, m.Pool, m.filter.relayOf(m.Source) != direct)
}

func labelsOf(sig signals.Signal, src signals.Source, pool, relayed bool) []string {
	worker, whole := workerLabels, poolLabels
	if relayed {
		worker, whole = relayedWorkerLabels, relayedPoolLabels
	}
	var by []string
	switch {
	case src.Engine == "ingress":
		by = routeLabels
	case pool:
		by = whole
	case src.Engine == "dcgm":
		by = gpuLabels
	case sig.Per == signals.PerNode:
		by = nodeLabels
	case sig.Per == signals.PerPool && src.Engine == "kube_state":
		by = ownerLabels
	case sig.Per == signals.PerPool:
		by = whole
	case src.Engine == "kube_state" || src.Engine == "cadvisor":
		by = podLabels
	default:
		by = worker
	}
	by = by[:len(by):len(by)]
	if src.Engine == target {
		by = append(by, "service")
	}
	if src.Engine == "epp" {
		by = append(by, "name") // the InferencePool
	}
	if src.Metric == podInfo {
		by = append(by, "pod_ip") // the address of pages that do not name their pod
	}
	for _, extra := range []string{src.Label, src.Value} {
		if extra != "" {
			by = append(by, extra)
		}
	}
	if renamed := renamedLabel(src); renamed != "" {
		by = append(by, renamed)
	}
	return by
}

// renamedLabel returns the name of a source's text label if its target has a label of that name. A
// pod's node is exported_node where the target of kube-state-metrics has a node.
func renamedLabel(src signals.Source) string {
	if src.Engine != "kube_state" || src.Label != "node" {
		return ""
	}
	return "exported_" + src.Label
}

// Own returns the labels by which the member tells its series apart, without the empty ones and
// without the mark.
func (m *Member) Own(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for _, name := range m.labels() {
		if v := labels[name]; v != "" {
			out[name] = v
		}
	}
	return out
}

// Text returns the text of a series with these labels; empty if the source has no text label.
func (m *Member) Text(labels map[string]string) string {
	if m.Source.Label == "" {
		return ""
	}
	return m.Source.Text(cmp.Or(labels[renamedLabel(m.Source)], labels[m.Source.Label]))
}

// Value returns the value of a series with these labels and the sample v: that of a label if the
// source names one, and NaN if this is no number; otherwise v.
func (m *Member) Value(labels map[string]string, v float64) float64 {
	if m.Source.Value == "" {
		return v
	}
	f, err := strconv.ParseFloat(labels[m.Source.Value], 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// Placed returns the query for the places of the series of PromQL expressions: a union that keeps,
// of each series, only the labels that place it.
func Placed(exprs []string) Union {
	parts := make([]string, len(exprs))
	for i, expr := range exprs {
		parts[i] = "max by (" + strings.Join(placeLabels, ", ") + ") (" + expr + ")"
	}
	return Union{text: unionOf(parts)}
}
