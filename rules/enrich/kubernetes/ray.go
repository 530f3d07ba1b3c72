package kubernetes

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
