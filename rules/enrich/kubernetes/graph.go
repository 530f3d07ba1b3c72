package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A component is one part of a DynamoGraphDeployment.
type component struct {
	role     string
	replicas int64
	counted  bool // the number of replicas is set
}

// componentsOf returns the parts of DynamoGraphDeployments: spec.services by name in v1alpha1, a
// list spec.components in v1beta1. The operator creates workloads for them, by rules that changed
// between its releases, and labels the pods with the part's name.
func componentsOf(graphs []unstructured.Unstructured) map[object]component {
	out := map[object]component{}
	add := func(g *unstructured.Unstructured, name string, spec map[string]any) {
		var c component
		for _, field := range []string{"subComponentType", "type", "componentType"} {
			if s, _, _ := unstructured.NestedString(spec, field); s == "prefill" || s == "decode" {
				c.role = s
			}
		}
		c.replicas, c.counted, _ = unstructured.NestedInt64(spec, "replicas")
		out[object{g.GetNamespace(), g.GetName(), name}] = c
	}
	for i := range graphs {
		g := &graphs[i]
		services, _, _ := unstructured.NestedMap(g.Object, "spec", "services")
		for name, s := range services {
			if spec, ok := s.(map[string]any); ok {
				add(g, name, spec)
			}
		}
		list, _, _ := unstructured.NestedSlice(g.Object, "spec", "components")
		for _, s := range list {
			if spec, ok := s.(map[string]any); ok {
				name, _, _ := unstructured.NestedString(spec, "name")
				add(g, name, spec)
			}
		}
	}
	return out
}

func (b *builder) componentOf(p *corev1.Pod) (component, bool) {
	c, ok := b.components[object{p.Namespace, p.Labels[dynamoGraph], p.Labels[dynamoComponent]}]
	return c, ok
}

func (b *builder) componentRole(p *corev1.Pod) string {
	c, _ := b.componentOf(p)
	return c.role
}

// templateOf returns a pod template within a custom resource.
func templateOf(u *unstructured.Unstructured, path ...string) (corev1.PodSpec, bool) {
	raw, found, err := unstructured.NestedMap(u.Object, path...)
	var spec corev1.PodSpec
	if err != nil || !found || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) != nil {
		return spec, false
	}
	return spec, len(spec.Containers) > 0
}
