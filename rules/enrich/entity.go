package enrich

import (
	"cmp"
	"net"
	"strings"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// Identify returns the entity of a series, by its labels. It does not take an exporter's pod for
// the workload's: if Prometheus renamed the workload's labels (exported_pod, exported_namespace),
// those count.
func Identify(cluster string, sig signals.Signal, src signals.Source, labels map[string]string) state.Entity {
	first := func(names ...string) string {
		for _, n := range names {
			if v := labels[n]; v != "" {
				return v
			}
		}
		return ""
	}
	per := sig.Per
	if src.Per != "" {
		per = src.Per
	}
	e := state.Entity{Cluster: cluster}
	switch src.Engine {
	case "dcgm":
		e.Namespace, e.Pod = labels["exported_namespace"], labels["exported_pod"]
		if e.Pod == "" && !strings.Contains(labels["pod"], "dcgm") {
			e.Namespace, e.Pod = first("namespace"), first("pod")
		}
		e.Node, e.GPU = cmp.Or(labels["node"], topology.HostOf(labels)), first("gpu", "UUID")
		if e.Node == "" {
			e.GPU = first("UUID", "gpu") // an index is ambiguous without its node
		}
	case "ingress":
		// The namespace of the proxy does not count, but that of the backend.
		up := topology.UpstreamOf(labels)
		e.Namespace, e.Pool = up.Namespace, up.Name
		if e.Namespace == "" {
			e.Namespace = first("destination_service_namespace", "exported_namespace", "namespace")
		}
	case "kube_state", "cadvisor":
		e.Namespace = first("exported_namespace", "namespace")
		if per == signals.PerPod {
			e.Pod, e.Instance = first("exported_pod", "pod"),
				labels["pod_ip"] // the address of its page, on the one series that has it
		}
		if per == signals.PerNode {
			e.Namespace, e.Node = "", first("exported_node", "node")
		}
		if per == signals.PerPool {
			e.Pool = first("deployment", "statefulset")
			if rs := labels["replicaset"]; e.Pool == "" && rs != "" {
				e.Pool = topology.DeploymentOf(rs)
			}
		}
	default:
		if src.Engine == "epp" {
			e.Pool = labels["name"] // of the InferencePool
		}
		e.Namespace = first("namespace", "kubernetes_namespace", "k8s_namespace_name", "exported_namespace")
		e.Model = first("model_name", "model")
		if per == signals.PerPod {
			e.Pod = first("pod", "kubernetes_pod_name", "pod_name", "k8s_pod_name", "exported_pod")
			e.Instance, e.Node = first("instance", "exported_instance"), first("node", "kubernetes_node")
		}
	}
	return e
}

// host returns the address of an instance without its port.
func host(instance string) string {
	if h, _, err := net.SplitHostPort(instance); err == nil {
		return h
	}
	return instance
}
