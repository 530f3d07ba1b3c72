package kubernetes

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A component is one part of a DynamoGraphDeployment.
type component struct {
	role     string
	replicas int64
	counted  bool // it says how many replicas it wants
}

// componentsOf reads the parts of DynamoGraphDeployments: spec.services by name in v1alpha1, a list spec.components in v1beta1. The
// operator turns them into workloads by rules that changed between its releases, and labels the pods with the part's name.
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

// A serveApp is what a RayService's configuration says of the one model that it serves; empty where it serves several or none.
type serveApp struct {
	llm   bool
	model string
	seqs  int
}

func serveAppsOf(services []unstructured.Unstructured) map[object]serveApp {
	out := map[object]serveApp{}
	for i := range services {
		s := &services[i]
		text, _, _ := unstructured.NestedString(s.Object, "spec", "serveConfigV2")
		var config struct {
			Applications []struct {
				Args struct {
					Configs []yaml.Node `yaml:"llm_configs"` // objects, or names of files
				} `yaml:"args"`
			} `yaml:"applications"`
		}
		if yaml.Unmarshal([]byte(text), &config) != nil {
			continue
		}
		var app serveApp
		configs := 0
		for _, a := range config.Applications {
			for _, node := range a.Args.Configs {
				configs++
				app.llm = true
				var one struct {
					Loading struct {
						ID string `yaml:"model_id"`
					} `yaml:"model_loading_config"`
					Engine struct {
						Seqs int `yaml:"max_num_seqs"`
					} `yaml:"engine_kwargs"`
				}
				if node.Decode(&one) == nil {
					app.model, app.seqs = one.Loading.ID, one.Engine.Seqs
				}
			}
		}
		if configs > 1 {
			app.model, app.seqs = "", 0
		}
		out[object{s.GetNamespace(), "RayService", s.GetName()}] = app
	}
	return out
}

// oneEngines are the RayClusters that run a single engine over all their pods: vLLM was started on the head, and takes the others' GPUs.
func oneEngines(pods []corev1.Pod) map[object]bool {
	out := map[object]bool{}
	for i := range pods {
		p := &pods[i]
		if p.Labels[rayNode] != "head" || p.Labels[rayCluster] == "" {
			continue
		}
		for _, c := range p.Spec.Containers {
			if text := strings.Join(commandOf(c), " "); strings.Contains(text, "vllm serve") || strings.Contains(text, "vllm.entrypoints") {
				out[object{p.Namespace, "RayCluster", p.Labels[rayCluster]}] = true
			}
		}
	}
	return out
}

// hasGPU says whether any container of the pod asks for an accelerator.
func hasGPU(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		for name, n := range c.Resources.Limits {
			if !n.IsZero() && (strings.HasSuffix(string(name), "/gpu") || strings.HasPrefix(string(name), "nvidia.com/mig-") || name == "google.com/tpu") {
				return true
			}
		}
		return false
	})
}

// templateOf is a pod template within a custom resource.
func templateOf(u *unstructured.Unstructured, path ...string) (corev1.PodSpec, bool) {
	raw, found, err := unstructured.NestedMap(u.Object, path...)
	var spec corev1.PodSpec
	if err != nil || !found || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) != nil {
		return spec, false
	}
	return spec, len(spec.Containers) > 0
}
