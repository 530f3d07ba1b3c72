package kubernetes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mostRoutes limits the routes of a worker.
const mostRoutes = 8

// A route is an object that selects pods by labels and sends them requests.
type route struct {
	object
	selector map[string]string
}

// routesIn returns the Services and InferencePools by namespace.
func routesIn(s *snapshot) map[string][]route {
	out := map[string][]route{}
	add := func(namespace, kind, name string, selector map[string]string) {
		if len(selector) > 0 { // without a selector, a Service selects no pods itself
			out[namespace] = append(out[namespace], route{object{namespace, kind, name}, selector})
		}
	}
	for i := range s.services {
		add(s.services[i].Namespace, "Service", s.services[i].Name, s.services[i].Spec.Selector)
	}
	pools := s.custom["InferencePool"]
	for i := range pools {
		sel, found, err := unstructured.NestedStringMap(pools[i].Object, "spec", "selector", "matchLabels")
		if !found || err != nil { // v1alpha2 has the labels directly
			sel, _, _ = unstructured.NestedStringMap(pools[i].Object, "spec", "selector")
		}
		add(pools[i].GetNamespace(), "InferencePool", pools[i].GetName(), sel)
	}
	return out
}

// gatewaysOf returns the Gateways that HTTPRoutes connect to a Service or an InferencePool.
func gatewaysOf(routes []unstructured.Unstructured) map[object][]object {
	out := map[object][]object{}
	for i := range routes {
		r := &routes[i]
		var parents []object
		refs, _, _ := unstructured.NestedSlice(r.Object, "spec", "parentRefs")
		for _, ref := range refs {
			if o, ok := reference(ref, "Gateway", r.GetNamespace()); ok {
				parents = append(parents, o)
			}
		}
		rules, _, _ := unstructured.NestedSlice(r.Object, "spec", "rules")
		for _, rule := range rules {
			m, ok := rule.(map[string]any)
			if !ok {
				continue
			}
			backends, _, _ := unstructured.NestedSlice(m, "backendRefs")
			for _, ref := range backends {
				if o, ok := reference(ref, "Service", r.GetNamespace()); ok {
					out[o] = append(out[o], parents...)
				}
			}
		}
	}
	return out
}

// reference reads a Gateway API reference with its defaults.
func reference(ref any, kind, namespace string) (object, bool) {
	m, ok := ref.(map[string]any)
	if !ok {
		return object{}, false
	}
	o := object{namespace, kind, ""}
	for field, into := range map[string]*string{"kind": &o.kind, "namespace": &o.namespace, "name": &o.name} {
		if v, ok := m[field].(string); ok && v != "" {
			*into = v
		}
	}
	return o, o.name != ""
}

// routesOf returns the routes of a pod, as kind/name.
func (b *builder) routesOf(p *corev1.Pod) []string {
	var out []string
	add := func(o object) {
		if name := o.kind + "/" + o.name; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, r := range b.routes[p.Namespace] {
		if !selects(r.selector, p.Labels) {
			continue
		}
		add(r.object)
		for _, g := range b.gateways[r.object] {
			add(g)
		}
	}
	for _, f := range b.frontends[object{p.Namespace, "DynamoGraphDeployment", p.Labels[dynamoGraph]}] {
		add(f)
	}
	slices.Sort(out)
	return out[:min(len(out), mostRoutes)]
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}
