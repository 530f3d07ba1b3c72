package topology

import (
	"slices"
	"strings"
)

// An Upstream names the destination of a proxy's requests: a workload, a Service or a route. Its
// name leads to the pool behind it.
type Upstream struct{ Namespace, Name string }

// UpstreamOf returns the upstream that the labels of Envoy, Istio or the nginx ingress controller
// name. It is zero if they name none.
func UpstreamOf(l map[string]string) Upstream {
	if name := first(l, "destination_workload", "destination_service_name"); name != "" && name != "unknown" {
		return Upstream{first(l, "destination_workload_namespace", "destination_service_namespace"), name}
	}
	if cluster := l["envoy_cluster_name"]; cluster != "" {
		return envoyCluster(cluster)
	}
	if l["ingress"] != "" { // the label service is the controller's own, unless it was renamed or honoured
		return Upstream{first(l, "exported_namespace", "namespace"), first(l, "exported_service", "service", "ingress")}
	}
	if l["pod"] != "" || l["exported_pod"] != "" {
		return Upstream{} // kube-state-metrics renames the Service of a pod, too
	}
	return Upstream{l["exported_namespace"], l["exported_service"]}
}

// envoyCluster reads the cluster names of Istio (outbound|PORT|SUBSET|SERVICE.NAMESPACE.svc…), of
// Envoy Gateway (httproute/NAMESPACE/NAME/rule/0), of Contour (NAMESPACE/SERVICE/PORT/HASH) and of
// kgateway (kube_NAMESPACE_SERVICE_PORT).
func envoyCluster(name string) Upstream {
	if parts := strings.Split(name, "|"); len(parts) == 4 {
		service, rest, found := strings.Cut(parts[3], ".")
		namespace, _, _ := strings.Cut(rest, ".")
		if parts[0] != "outbound" || !found || !strings.Contains(rest, ".svc") {
			return Upstream{}
		}
		return Upstream{namespace, service}
	}
	switch parts := strings.Split(name, "/"); {
	case len(parts) >= 4 && strings.HasSuffix(parts[0], "route"):
		return Upstream{parts[1], parts[2]}
	case len(parts) == 4:
		return Upstream{parts[0], parts[1]}
	}
	if parts := strings.Split(name, "_"); len(parts) == 4 && parts[0] == "kube" {
		return Upstream{parts[1], parts[2]}
	}
	return Upstream{}
}

// proxied places an alert that a proxy's series are about. The proxy's own pod, node and address do
// not count, but those of a sidecar beside a worker do.
func proxied(l map[string]string) (Upstream, bool) {
	up := UpstreamOf(l)
	return up, up.Name != "" && !(l["reporter"] == "destination" && l["pod"] != "")
}

// gatewayNamespaces are the namespaces into which the manifests of nginx, Istio, Envoy Gateway,
// Contour and kgateway install their proxies.
var gatewayNamespaces = []string{"ingress-nginx", "istio-system", "istio-ingress", "envoy-gateway-system", "projectcontour",
	"kgateway-system"}

// gateway reports whether the labels of a proxy's series are those of a gateway, which serves
// several pools. A sidecar's labels are those of the worker beside it.
func gateway(l map[string]string) bool {
	if slices.Contains(gatewayNamespaces, l["namespace"]) {
		return true
	}
	name := first(l, "pod", "service")
	return slices.ContainsFunc([]string{"gateway", "ingress", "envoy", "contour"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}
