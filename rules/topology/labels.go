package topology

import (
	"net"
	"net/url"
	"strings"

	"paramedic/state"
)

// workloadLabels are the labels whose value is a pool's name.
var workloadLabels = []string{
	"deployment", "statefulset", "leaderworkerset", "daemonset", "workload", "inference_pool",
	"dynamo_graph_deployment", "k8s_deployment_name", "k8s_statefulset_name", "k8s_daemonset_name",
}

// A Source tells whose labels an alert has.
type Source struct {
	GPU    bool // its rule reads the DCGM exporter
	Picker bool // its rule reads an endpoint picker, whose pool metrics call the InferencePool "name"
	Proxy  bool // its rule reads only what a proxy counts of requests
	Scrape bool // it is about the scraped target itself
}

// EntityOf returns the entity that an alert's labels describe.
func EntityOf(a state.Alert, cluster string, from Source) state.Entity {
	l := a.Labels
	gpu, picker := from.GPU || ofGPUExporter(l), from.Picker
	e := state.Entity{Cluster: cluster}
	// Dynamo_namespace is not a Kubernetes namespace.
	e.Namespace = first(l, "exported_namespace", "namespace", "kubernetes_namespace", "pod_namespace", "k8s_namespace_name")
	if l["gpu_uuid"] == "" { // the GPU exporter's labels of a link, whose model_name is the GPU's, as modelName elsewhere
		e.Model = first(l, "model_name", "model", "served_model_name", "requested_model", "gen_ai_request_model", "target_model_name")
	}
	e.Pod = first(l, "exported_pod", "pod", "pod_name", "kubernetes_pod_name", "k8s_pod_name", "model_server_pod")
	e.Node = first(l, "exported_node", "node", "kubernetes_node", "nodename", "node_name", "k8s_node_name")
	if !gpu && relayed(l) {
		e.Namespace, e.Pod, e.Node = l["k8s_namespace_name"], l["k8s_pod_name"], l["k8s_node_name"]
	}
	if up, ok := proxied(l); ok && !from.GPU {
		return state.Entity{Cluster: cluster, Namespace: up.Namespace, Pool: up.Name, Model: e.Model}
	}
	if from.Proxy && gateway(l) {
		return state.Entity{Cluster: cluster, Model: e.Model}
	}
	if gpu {
		gpuEntity(&e, l)
	}
	instance := subjectInstance(&e, l, gpu)
	if nodeExporter(l) && !from.Scrape {
		return machine(cluster, e.Node, instance)
	}
	kubeState := kubeState(l, e.Pod)
	if kubeState {
		kubeEntity(&e, l, from.Scrape)
	} else if e.Pod == "" && e.GPU == "" {
		e.Instance = instance
	}
	e.Pool = poolName(l, e.Pod, picker)
	if e.Pod == "" && e.Pool == "" && e.Node == "" && e.GPU == "" && !gpu && !picker && !pickers(l) && !kubeState {
		e.Job, e.Service = first(l, "exported_job", "job"), first(l, "exported_service", "service")
	}
	return e
}

// ofGPUExporter reports whether the series are those of a GPU exporter.
func ofGPUExporter(l map[string]string) bool {
	return l["DCGM_FI_DRIVER_VERSION"] != "" || l["UUID"] != "" || l["gpu_uuid"] != "" ||
		strings.Contains(strings.ToLower(l["job"]), "dcgm")
}

// relayed reports whether pod and namespace are those of a collector, whose page Prometheus
// scrapes. OpenTelemetry's describes the worker with k8s labels. If kube-state-metrics sends its
// series through it, these labels describe kube-state-metrics.
func relayed(l map[string]string) bool {
	pod := l["k8s_pod_name"]
	return l["exported_pod"] == "" && pod != "" && l["pod"] != "" && l["pod"] != pod && !kubeState(l, pod)
}

// nodeExporter reports whether the series are those of node-exporter, which measures its machine.
func nodeExporter(l map[string]string) bool {
	for _, name := range []string{l["job"], l["container"], l["pod"], l["service"]} {
		if strings.Contains(name, "node-exporter") || strings.Contains(name, "node_exporter") {
			return true
		}
	}
	return false
}

// machine returns the entity of a machine: its node, or else the address of its exporter.
func machine(cluster, node, instance string) state.Entity {
	host, _, _ := strings.Cut(instance, ":")
	if node == "" && net.ParseIP(host) == nil {
		node = host
	}
	if node != "" {
		instance = ""
	}
	return state.Entity{Cluster: cluster, Node: node, Instance: instance}
}

// kubeState reports whether the series are those of kube-state-metrics.
func kubeState(l map[string]string, pod string) bool {
	return strings.Contains(l["job"], "kube-state") || kubeStatePod(pod) || kubeStatePod(l["service"]) ||
		kubeStatePod(l["app_kubernetes_io_name"])
}

// kubeEntity clears what kube-state-metrics says of itself. Its own pod, node and namespace are not
// those of its subject, unless the alert is about its scrape.
func kubeEntity(e *state.Entity, l map[string]string, scrape bool) {
	if first(l, workloadLabels...) != "" { // a workload has no node: this one is of the target
		e.Node = l["exported_node"]
	}
	if e.Pod != "" && !kubeStatePod(e.Pod) { // the pod's node has another name, or is known from the pod
		e.Node = l["exported_node"]
	}
	if kubeStatePod(e.Pod) && !scrape {
		e.Pod = ""
		if l["exported_namespace"] == "" && e.Node == "" && first(l, workloadLabels...) == "" {
			e.Namespace = ""
		}
	}
	if e.Pod == "" && e.Node != "" {
		e.Namespace = ""
	}
}

// kubeStatePod reports whether a name has that of kube-state-metrics in it. Objects without a pod,
// such as a Deployment, and aggregated pods without honorLabels, get the pod of the exporter.
func kubeStatePod(name string) bool { return strings.Contains(name, "kube-state-metrics") }

// subjectInstance returns the address that the alert is about. It clears the pod and node of the
// entity if they belong to a router or an endpoint picker.
func subjectInstance(e *state.Entity, l map[string]string, gpu bool) string {
	instance := l["instance"]
	if server := first(l, "server", "worker_url", "worker"); server != "" && !gpu && looksLikeAddress(server) {
		// The router re-exports an engine's series: pod and instance are the router's, server (or
		// SGLang's worker_url) is the engine.
		e.Pod, instance = "", hostPort(server)
	}
	if endpoint := l["model_server_endpoint"]; endpoint != "" {
		e.Pod, instance = "", hostPort(endpoint)
	}
	if !gpu && pickers(l) {
		e.Pod, e.Node, instance = "", "", ""
	}
	return instance
}

// poolName returns the pool from the labels of a workload or an endpoint picker, or from the pod's
// name.
func poolName(l map[string]string, pod string, picker bool) string {
	pool := first(l, workloadLabels...)
	if pool == "" && picker {
		pool = first(l, "name")
	}
	if pool == "" && pod != "" {
		pool = PoolOf(pod)
	}
	return pool
}

// pickers reports whether pod, instance and node belong to an endpoint picker, which reports on the
// pool behind it.
func pickers(l map[string]string) bool {
	return l["exported_pod"] == "" &&
		(l["container"] == "epp" || l["job"] == "epp" || strings.Contains(l["pod"], "-epp-"))
}

// gpuEntity reads the labels of the DCGM exporter. Without honorLabels, pod and namespace are the
// exporter's own, and the workload's are exported_pod and exported_namespace.
func gpuEntity(e *state.Entity, l map[string]string) {
	if e.Node == "" {
		e.Node = HostOf(l)
	}
	if e.Node != "" {
		e.GPU = first(l, "gpu", "gpu_id", "UUID", "gpu_uuid")
	} else {
		e.GPU = first(l, "UUID", "gpu_uuid", "gpu") // an index is ambiguous without its node
	}
	exporter := strings.Contains(l["pod"], "dcgm") || strings.Contains(l["container"], "exporter") ||
		strings.Contains(l["container"], "dcgm")
	if l["exported_pod"] == "" && exporter {
		e.Pod = ""
		if l["exported_namespace"] == "" {
			e.Namespace = ""
		}
	}
}

// HostOf returns the node that a GPU exporter's series name; "" if they name something else. An
// exporter that was not told its node gives its pod's name. One that reads a remote host engine
// gives the engine's address.
func HostOf(l map[string]string) string {
	host := first(l, "Hostname", "hostname")
	if host == l["pod"] || host == "localhost" || strings.HasPrefix(host, "127.") || strings.Contains(host, "dcgm") {
		return ""
	}
	return host
}

func first(labels map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := labels[k]; v != "" {
			if len(v) > 253 {
				v = v[:253] // the longest name in Kubernetes
			}
			return strings.ToValidUTF8(v, "")
		}
	}
	return ""
}

func looksLikeAddress(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") || strings.Contains(s, ":")
}

// hostPort returns the address without scheme and path, as a scrape names its instance.
func hostPort(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		return u.Host
	}
	return s
}

// Placeless reports whether the entity names no model, pool, pod, node or GPU.
func Placeless(e state.Entity) bool {
	return e.Model == "" && e.Pool == "" && e.Pod == "" && e.Node == "" && e.GPU == ""
}
