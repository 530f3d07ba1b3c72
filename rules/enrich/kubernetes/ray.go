package kubernetes

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A serveModel holds the configuration of a model that a RayService serves, or of one phase of it.
type serveModel struct {
	id         string // empty if the configuration is in a file
	deployment string // Ray's name of the deployment, after its kind; empty for the same reason
	engine     string
	role       string // prefill or decode if each has engines of its own
	seqs       int
	gpus       int64 // per engine; 0 if unknown, or if the bundles are set by hand
}

// A serveApp holds the models that a RayService serves. It is empty if the service serves something
// else.
type serveApp []serveModel

// common returns the fields that all models share, except the GPUs.
func (a serveApp) common() serveModel {
	if len(a) == 0 {
		return serveModel{}
	}
	out := a[0]
	out.gpus = 0
	for _, m := range a[1:] {
		if m.id != out.id {
			out.id = ""
		}
		if m.role != out.role {
			out.role = ""
		}
		if m.seqs != out.seqs {
			out.seqs = 0
		}
		if m.engine != out.engine {
			out.engine = "vllm"
		}
	}
	return out
}

// gpusPerEngine returns the GPUs of an engine if there is exactly one model. It returns 0 if there
// are more models, or if the number is unknown.
func (a serveApp) gpusPerEngine() int64 {
	if len(a) != 1 {
		return 0
	}
	return a[0].gpus
}

// of returns the models that a deployment of the application may serve. Ray names deployments, for
// example, LLMServer:qwen2_5-7b or Prefill:qwen--qwq
// (python/ray/llm/_internal/serve/core/server/builder.py). If no model has that name, the
// deployment serves one whose configuration is in a file, or, in an upgrade, one of the previous
// configuration.
func (a serveApp) of(deployment string) serveApp {
	kind, name, _ := strings.Cut(deployment, ":")
	role := map[string]string{"Prefill": "prefill", "Decode": "decode"}[kind]
	var exact, filed serveApp
	for _, m := range a {
		switch {
		case m.role != role:
		case m.deployment == "":
			filed = append(filed, m)
		case m.deployment == name:
			exact = append(exact, m)
		}
	}
	switch {
	case deployment == "": // the deployment of a gang is unknown
		return a
	case len(exact) > 0:
		return exact
	case len(filed) > 0:
		return filed
	}
	return serveApp{{engine: a.common().engine, role: role}}
}

// serveAppsOf reads the applications of Ray Serve's builders for language models: of one model or
// several, with data-parallel ranks, and with separate prefill and decode. It reads them leniently:
// the format is Ray's, and most of its keys do not matter here.
func serveAppsOf(services []unstructured.Unstructured) map[object]serveApp {
	out := map[object]serveApp{}
	for i := range services {
		s := &services[i]
		text, _, _ := unstructured.NestedString(s.Object, "spec", "serveConfigV2")
		var config struct {
			Applications []struct {
				Args yaml.Node `yaml:"args"`
			} `yaml:"applications"`
		}
		if yaml.Unmarshal([]byte(text), &config) != nil {
			continue
		}
		var app serveApp
		add := func(node yaml.Node, role string) {
			if !node.IsZero() && node.ShortTag() != "!!null" {
				app = append(app, serveModelOf(node, role))
			}
		}
		for _, a := range config.Applications {
			var args struct {
				Several []yaml.Node `yaml:"llm_configs"` // objects, or names of files
				One     yaml.Node   `yaml:"llm_config"`
				Prefill yaml.Node   `yaml:"prefill_config"`
				Decode  yaml.Node   `yaml:"decode_config"`
			}
			if a.Args.Decode(&args) != nil {
				continue // an application of another kind, with other arguments
			}
			for _, node := range args.Several {
				add(node, "")
			}
			add(args.One, "")
			add(args.Prefill, "prefill")
			add(args.Decode, "decode")
		}
		out[object{s.GetNamespace(), "RayService", s.GetName()}] = app
	}
	return out
}

func serveModelOf(node yaml.Node, role string) serveModel {
	var config struct {
		Loading struct {
			ID string `yaml:"model_id"`
		} `yaml:"model_loading_config"`
		Engine struct {
			Seqs     int   `yaml:"max_num_seqs"`
			Tensor   int64 `yaml:"tensor_parallel_size"`
			Pipeline int64 `yaml:"pipeline_parallel_size"`
			Data     int64 `yaml:"data_parallel_size"`
			TP       int64 `yaml:"tp_size"` // SGLang's names
			PP       int64 `yaml:"pp_size"`
			MoEData  int64 `yaml:"moe_dp_size"`
		} `yaml:"engine_kwargs"`
		Deployment struct {
			Name string `yaml:"name"`
		} `yaml:"deployment_config"`
		Server  string         `yaml:"server_cls"`
		Bundles map[string]any `yaml:"placement_group_config"`
	}
	out := serveModel{engine: "vllm", role: role}
	if node.Decode(&config) != nil {
		return out
	}
	out.id, out.seqs = config.Loading.ID, config.Engine.Seqs
	out.deployment = cmp.Or(config.Deployment.Name, strings.NewReplacer("/", "--", ".", "_").Replace(out.id))
	if strings.Contains(strings.ToLower(config.Server), "sglang") {
		out.engine = "sglang"
	}
	if e := config.Engine; config.Bundles == nil && e.Data <= 1 && e.MoEData <= 1 {
		out.gpus = max(e.Tensor, e.TP, 1) * max(e.Pipeline, e.PP, 1)
	}
	return out
}

// singleEngines returns the RayClusters that run a single engine over all their pods: vLLM was
// started on the head and uses the GPUs of the others.
func singleEngines(pods []corev1.Pod) map[object]bool {
	out := map[object]bool{}
	for i := range pods {
		p := &pods[i]
		if p.Labels[rayNode] != "head" || p.Labels[rayCluster] == "" {
			continue
		}
		for _, c := range p.Spec.Containers {
			if text := strings.Join(commandOf(c), " "); strings.Contains(text, "vllm serve") ||
				strings.Contains(text, "vllm.entrypoints") {
				out[object{p.Namespace, "RayCluster", p.Labels[rayCluster]}] = true
			}
		}
	}
	return out
}

// spanningEngines returns the RayClusters of RayServices whose GPU pods together run one engine,
// because it would not fit on fewer. It counts the desired GPUs, so that two engines are not taken
// for one while half of their pods are lost. If an engine needs fewer pods than there are, only Ray
// knows where it is.
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
		all, needed := desiredGPUs(c), apps[owners[of]].gpusPerEngine()
		out[of] = all > 0 && smallest[of] < needed && all-smallest[of] < needed
	}
	return out
}

// desiredGPUs returns the GPUs of a RayCluster once all its pods run. It returns 0 if KubeRay does
// not report them, as before 1.1 and for TPUs.
func desiredGPUs(cluster *unstructured.Unstructured) int64 {
	text, _, _ := unstructured.NestedString(cluster.Object, "status", "desiredGPU")
	n, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return n.Value()
}

// hasGPU reports whether any container of the pod requests an accelerator.
func hasGPU(p *corev1.Pod) bool { return gpusOf(p) > 0 }

// accelerators returns the number of accelerators that a container requests.
func accelerators(c corev1.Container) int64 {
	var sum int64
	for name, n := range c.Resources.Limits {
		if strings.HasSuffix(string(name), "/gpu") || strings.HasPrefix(string(name), "nvidia.com/mig-") ||
			name == "google.com/tpu" {
			sum += n.Value()
		}
	}
	return sum
}

// gpusOf returns the number of accelerators that the pod's containers request.
func gpusOf(p *corev1.Pod) int64 {
	var sum int64
	for _, c := range p.Spec.Containers {
		sum += accelerators(c)
	}
	return sum
}

// served returns the fields that all engines of a RayService's pod share, as far as they are known.
func (b *builder) served(p *corev1.Pod, load object) serveModel {
	if at := b.placed[p.Namespace+"/"+p.Name]; len(at.models) > 0 {
		return at.models.common()
	}
	return b.serveApps[load].common()
}
