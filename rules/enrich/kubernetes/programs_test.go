package kubernetes

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

func TestEngineIsKnownByItsProgram(t *testing.T) {
	gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
	for name, c := range map[string]struct {
		in   corev1.Container
		want string
	}{
		"vLLM's image":          {corev1.Container{Image: "vllm/vllm-openai:v0.24.0", Args: []string{"--model=m"}}, "vllm"},
		"vLLM in a script":      {corev1.Container{Image: "registry/llm", Command: []string{"tini", "--", "bash", "-c", "ulimit -n 1; vllm serve m"}}, "vllm"},
		"SGLang's module":       {corev1.Container{Image: "registry/llm", Command: []string{"python3", "-m", "sglang.launch_server"}}, "sglang"},
		"TensorRT-LLM's image":  {corev1.Container{Image: "nvcr.io/nvidia/tensorrt-llm/release:1.1.0"}, "trtllm"},
		"Dynamo's runtime":      {corev1.Container{Image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.0.0"}, "dynamo"},
		"Dynamo's module":       {corev1.Container{Image: "registry/llm", Command: []string{"python3", "-m", "dynamo.vllm"}}, "dynamo"},
		"an engine's own flag":  {corev1.Container{Image: "registry/llm", Args: []string{"--max-num-seqs", "64"}}, "vllm"},
		"flags beside a GPU":    {corev1.Container{Image: "registry/llm", Args: []string{"--tensor-parallel-size=4"}, Resources: gpu}, "vllm"},
		"KServe's server":       {corev1.Container{Image: "kserve/huggingfaceserver:v0.15.0-gpu", Args: []string{"--model_name=qwen"}, Resources: gpu}, "vllm"},
		"a client":              {corev1.Container{Image: "registry/chat:3", Args: []string{"--llm-url=http://vllm-qwen.llm.svc:8000/v1"}}, ""},
		"a probe":               {corev1.Container{Image: "curlimages/curl:8", Args: []string{"-sf", "http://vllm.llm/health"}}, ""},
		"a load generator":      {corev1.Container{Image: "ghcr.io/vllm-project/guidellm:0.3", Args: []string{"benchmark", "--backend", "vllm"}}, ""},
		"a program behind tini": {corev1.Container{Image: "registry/llm", Command: []string{"tini", "--", "vllm", "serve", "m"}}, "vllm"},
		"a program behind uv":   {corev1.Container{Image: "registry/llm", Command: []string{"uv", "run", "--no-sync", "vllm", "serve", "m"}}, "vllm"},
		"Triton's tag":          {corev1.Container{Image: "nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3"}, "trtllm"},
		"an operator":           {corev1.Container{Image: "nvcr.io/nvidia/ai-dynamo/kubernetes-operator:1.0.0", Command: []string{"/manager"}}, ""},
		"an app of DynamoDB":    {corev1.Container{Image: "registry/orders:1", Args: []string{"--store=dynamodb"}}, ""},
		"a trainer with a flag": {corev1.Container{Image: "registry/train:1", Args: []string{"--tensor-parallel-size=4"}}, ""},
	} {
		if got := engineOf(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A reader that gives what Prometheus would give.
type given enrich.Reading

func (g given) Read(context.Context, enrich.Query) enrich.Reading { return enrich.Reading(g) }
func (g given) Ping(context.Context) error                        { return nil }

// The name under which the engine serves its model may differ from that on the command line, and
// the image may be unknown.
func TestEvidenceNeedsNoKnownCommand(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, set := range map[string]func(c *corev1.Container){
		"an expanded name": func(c *corev1.Container) { c.Args = []string{"--model=$(PATH)", "--served-model-name=$(NAME)"} },
		"another name": func(c *corev1.Container) {
			c.Command = []string{"vllm", "serve", "/models/qwen3-8b", "--config", "/etc/c.yaml"}
		},
		"an image of the team": func(c *corev1.Container) { c.Image, c.Args = "registry/llm-server:1", nil },
	} {
		t.Run(name, func(t *testing.T) {
			objects := slices.Concat(deploymentOf("vllm-llama", nil), deploymentOf("chat", nil))
			objects = append(objects, enginePod("vllm-llama-1-aaaa2", nil, owned("ReplicaSet", "vllm-llama-1"), "--model=llama"))
			prom := enrich.Reading{}
			for _, pod := range []string{"chat-7d9f8b6c5-bbbb2", "chat-7d9f8b6c5-bbbb4"} {
				p := enginePod(pod, nil, owned("ReplicaSet", "chat-1"))
				set(&p.Spec.Containers[0])
				objects = append(objects, p)
				e := state.Entity{Namespace: "llm", Pod: pod, Model: "qwen"}
				prom.Runs(e, "vllm")
				prom.Samples = append(prom.Samples, state.Sample{Signal: "kv_usage", Entity: e, Value: .97, At: now},
					state.Sample{Signal: "up", Entity: state.Entity{Namespace: "llm", Pod: pod}, Value: 1, At: now})
			}
			declared, err := signals.LoadSignals()
			if err != nil {
				t.Fatal(err)
			}
			g := enrich.New(enrich.Config{Signals: declared, Clusters: map[string]enrich.Cluster{"default": {Prometheus: given(prom),
				Kubernetes: New(fake.NewClientset(objects...), customClient())}}})
			ev := g.Gather(t.Context(), enrich.Request{Cluster: "default", Scope: state.Scope{Namespace: "llm", Model: "qwen"},
				Onset: now.Add(-time.Minute), Now: now})
			workers, full := 0, 0
			for _, w := range ev.Workers {
				if w.Model == "qwen" && w.Pool == "chat" {
					workers++
				}
			}
			for _, s := range ev.Samples {
				if s.Signal == "kv_usage" && s.Entity.Pool == "chat" {
					full++
				}
			}
			if workers != 2 || full != 2 {
				t.Errorf("%d workers of the pool, %d caches; workers %+v", workers, full, ev.Workers)
			}
		})
	}
}
