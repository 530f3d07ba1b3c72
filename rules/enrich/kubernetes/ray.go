package kubernetes

import (
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A serveApp is what a RayService's configuration says of the one model that it serves; empty where it serves several or none.
type serveApp struct {
	llm   bool
	model string
	seqs  int
	gpus  int64 // that one engine takes; 0 where they are bundled by hand
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
						Seqs     int   `yaml:"max_num_seqs"`
						Tensor   int64 `yaml:"tensor_parallel_size"`
						Pipeline int64 `yaml:"pipeline_parallel_size"`
					} `yaml:"engine_kwargs"`
					Bundles map[string]any `yaml:"placement_group_config"`
				}
				if node.Decode(&one) != nil {
					continue
				}
				app.model, app.seqs = one.Loading.ID, one.Engine.Seqs
				if one.Bundles == nil {
					app.gpus = max(one.Engine.Tensor, 1) * max(one.Engine.Pipeline, 1)
				}
			}
		}
		if configs > 1 {
			app = serveApp{llm: true}
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

// spanningEngines are the RayClusters of RayServices all of whose GPU pods run one engine between them: it would not fit on fewer.
// What the cluster wants counts, so that two engines do not pass for one while half of their pods are lost. Where an engine needs fewer
// pods than there are, Ray puts it wherever there is room and no object says where that is: each pod stays a worker by itself.
func spanningEngines(s *snapshot, apps map[object]serveApp, owners map[object]object) map[object]bool {
	smallest := map[object]int64{} // the GPUs of each cluster's smallest pod
	for i := range s.pods {
		p := &s.pods[i]
		of := object{p.Namespace, "RayCluster", p.Labels[rayCluster]}
		if n := gpusOf(p); n > 0 && (smallest[of] == 0 || n < smallest[of]) {
			smallest[of] = n
		}
	}
	out := map[object]bool{}
	for i := range s.custom["RayCluster"] {
		c := &s.custom["RayCluster"][i]
		of := object{c.GetNamespace(), "RayCluster", c.GetName()}
		all, needed := desiredGPUs(c), apps[owners[of]].gpus
		out[of] = all > 0 && smallest[of] < needed && all-smallest[of] < needed
	}
	return out
}

// desiredGPUs is how many GPUs a RayCluster has once all its pods run; 0 where KubeRay does not tell, as before 1.1 and of TPUs.
func desiredGPUs(cluster *unstructured.Unstructured) int64 {
	text, _, _ := unstructured.NestedString(cluster.Object, "status", "desiredGPU")
	n, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return n.Value()
}

// hasGPU says whether any container of the pod asks for an accelerator.
func hasGPU(p *corev1.Pod) bool { return gpusOf(p) > 0 }

// gpusOf is how many accelerators the pod's containers ask for.
func gpusOf(p *corev1.Pod) int64 {
	var sum int64
	for _, c := range p.Spec.Containers {
		for name, n := range c.Resources.Limits {
			if strings.HasSuffix(string(name), "/gpu") || strings.HasPrefix(string(name), "nvidia.com/mig-") || name == "google.com/tpu" {
				sum += n.Value()
			}
		}
	}
	return sum
}
