package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// written parses custom resources from YAML.
func written(t *testing.T, docs string) []runtime.Object {
	t.Helper()
	var out []runtime.Object
	for _, doc := range strings.Split(docs, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		u := &unstructured.Unstructured{}
		raw, err := yaml.ToJSON([]byte(doc))
		if err == nil {
			err = u.UnmarshalJSON(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("llm")
		out = append(out, u)
	}
	return out
}

func customClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{}
	for _, k := range customKinds {
		for _, v := range k.versions {
			kinds[v] = k.kind + "List"
		}
	}
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	c.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		for _, o := range objects {
			if v := o.GetObjectKind().GroupVersionKind().GroupVersion(); v.Group == a.GetResource().Group &&
				v != a.GetResource().GroupVersion() {
				return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "") // only the version of the objects is installed
			}
		}
		return false, nil, nil
	})
	return c
}

func owned(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
}

type tags = map[string]string

func enginePod(name string, l tags, owners []metav1.OwnerReference, args ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "llm", Labels: l, OwnerReferences: owners},
		Spec: corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "main", Image: "vllm/vllm-openai:v0.24.0",
			Args: args}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}}}
}

func deploymentOf(name string, owners []metav1.OwnerReference) []runtime.Object {
	return []runtime.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "llm", OwnerReferences: owners}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name + "-1", Namespace: "llm", OwnerReferences: owned("Deployment", name)}},
	}
}

// seen returns a worker's topology: kind/pool of kind/owner, group, role, model.
func seen(w state.Worker) string {
	out := w.PoolKind + "/" + w.Pool
	if w.Owner != "" {
		out += " of " + w.OwnerKind + "/" + w.Owner
	}
	for _, x := range []struct{ what, v string }{{"group", w.Group}, {"role", w.Role}, {"model", w.Model}} {
		if x.v != "" {
			out += " " + x.what + " " + x.v
		}
	}
	return out
}

type world struct {
	objects []runtime.Object
	custom  string
	want    map[string]string
	routes  map[string]string
	samples map[string]float64
	notes   string // about missing answers of Ray
}

func worlds() map[string]world {
	ray := func(name, kind string, args ...string) *corev1.Pod {
		p := enginePod(name, tags{rayCluster: "chat-x7k2p", rayNode: kind, rayGroup: kind + "s"}, owned("RayCluster", "chat-x7k2p"),
			args...)
		p.Spec.Containers[0].Image = "rayproject/ray-llm:2.46.0"
		p.Status.PodIP = "" // no address, so that no head is asked
		if kind == "worker" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		}
		return p
	}
	kserve := func(name, set, generation string, args ...string) *corev1.Pod {
		p := enginePod(name, tags{kserveService: "llama", kserveNodes: generation}, owned("ReplicaSet", set), args...)
		p.Spec.Containers[0].Image = "kserve/huggingfaceserver:v0.15.2-gpu"
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		return p
	}
	rayService := func(engine, status string) string {
		return "apiVersion: ray.io/v1\nkind: RayCluster\n" +
			"metadata: {name: chat-x7k2p, labels: {ray.io/originated-from-crd: RayService, ray.io/originated-from-cr-name: chat}}\nstatus: {" + status + "}\n---\n" +
			"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: chat}\nspec:\n  serveConfigV2: |\n    applications:\n    - args:\n        llm_configs:\n" +
			"        - model_loading_config: {model_id: deepseek}\n          " + engine + "\n"
	}
	const noHead = "topology: Ray of llm/chat-x7k2p: its head has no address; the bot groups its pods by their Kubernetes objects alone"
	const overTwo = "engine_kwargs: {tensor_parallel_size: 4, pipeline_parallel_size: 2}" // a worker's pod has four GPUs
	front := enginePod("graph-frontend-1-a", tags{dynamoGraph: "graph", dynamoType: "frontend"}, owned("ReplicaSet", "graph-frontend-1"),
		"python3", "-m", "dynamo.frontend")
	dsPod := func(name, role, typ string) *corev1.Pod {
		return enginePod(name, tags{lwsName: "g-disagg-0-5f2c-" + role, lwsGroup: "0", disaggregatedName: "g-disagg",
			disaggregatedRole: role, dynamoGraph: "g", dynamoComponent: role, dynamoType: typ},
			owned("StatefulSet", "g-disagg-0-5f2c-"+role), "python3", "-m", "dynamo.vllm", "--model", "qwen")
	}
	llmisvc := func(name, set, component, script string) *corev1.Pod {
		p := enginePod(name, tags{partOf: "llminferenceservice", appName: "l", appComponent: component}, owned("ReplicaSet", set))
		p.Spec.Containers[0].Command, p.Spec.Containers[0].Args = []string{"/bin/bash", "-c", script}, []string{"--"}
		return p
	}
	render := corev1.Container{Name: "vllm-render", Image: "vllm/vllm-openai-cpu:v0.21.0", Command: []string{"vllm", "launch", "render"},
		Args: []string{"llama", "--port=8000"}}
	trt := func(name string, args ...string) *corev1.Pod {
		p := enginePod(name, nil, owned("ReplicaSet", strings.TrimSuffix(name, "-a")), args...)
		p.Spec.Containers[0].Image = "nvcr.io/nvidia/tensorrt-llm/release:1.2.0"
		return p
	}
	epp := enginePod("epp-1", tags{"app": "epp"}, nil, "--pool-name", "vllm-llama")
	epp.Spec.Containers[0].Image = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4"
	return map[string]world{
		"a LeaderWorkerSet of an LLMInferenceService": {
			objects: []runtime.Object{
				enginePod("ring-0", tags{lwsName: "ring", lwsGroup: "0", llmdRole: "decode"}, owned("StatefulSet", "ring"), "serve",
					"llama-405b"),
				enginePod("ring-0-1", tags{lwsName: "ring", lwsGroup: "0", llmdRole: "decode"}, owned("StatefulSet", "ring-0"),
					"--headless"),
				enginePod("ring-1", tags{lwsName: "ring", lwsGroup: "1", llmdRole: "decode"}, owned("StatefulSet", "ring"), "serve",
					"llama-405b"),
				&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "ring-abc", Namespace: "llm",
					OwnerReferences: owned("LeaderWorkerSet", "ring"), CreationTimestamp: ago(5 * time.Minute)}}},
			custom: "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n" +
				"metadata: {name: ring, ownerReferences: [{apiVersion: v1, kind: LLMInferenceService, name: llama, uid: u, controller: true}]}\n" +
				"spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: main, image: 'vllm/vllm-openai:v0.25.0'}]}}}}\n" +
				"status: {readyReplicas: 1, updatedReplicas: 1}",
			want: map[string]string{ // no worker does only prefill, so decode is no separate phase
				"ring-0":   "LeaderWorkerSet/ring of LLMInferenceService/llama group 0 model llama-405b",
				"ring-0-1": "LeaderWorkerSet/ring of LLMInferenceService/llama group 0 model llama-405b",
				"ring-1":   "LeaderWorkerSet/ring of LLMInferenceService/llama group 1 model llama-405b"},
			samples: map[string]float64{"replicas_desired": 2, "replicas_ready": 1, "rollout_in_progress": 1, "rollout_age": 300,
				"rollout_image": 1},
		},
		"a DynamoGraphDeployment v1alpha1 by Deployments": {
			objects: slices.Concat([]runtime.Object{front,
				enginePod("graph-decode-1-a", tags{dynamoGraph: "graph", dynamoType: "worker", dynamoComponent: "Decode"},
					owned("ReplicaSet", "graph-decode-1"), "python3", "-m", "dynamo.vllm", "--model", "qwen"),
				enginePod("graph-prefill-1-a", tags{dynamoGraph: "graph", dynamoType: "worker", dynamoSubType: "prefill",
					dynamoComponent: "Prefill"}, owned("ReplicaSet", "graph-prefill-1"), "python3", "-m", "dynamo.vllm",
					"--model", "qwen")},
				deploymentOf("graph-frontend", nil), deploymentOf("graph-decode", owned("DynamoComponentDeployment", "graph-decode")),
				deploymentOf("graph-prefill", nil)),
			custom: "apiVersion: nvidia.com/v1alpha1\nkind: DynamoComponentDeployment\n" +
				"metadata: {name: graph-decode, ownerReferences: [{apiVersion: v1, kind: DynamoGraphDeployment, name: graph, uid: u, controller: true}]}\n---\n" +
				"apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: graph}\n" +
				"spec: {services: {Frontend: {componentType: frontend, replicas: 1}, Decode: {componentType: worker, subComponentType: decode, replicas: 1}, Prefill: " +
				"{componentType: worker, subComponentType: prefill, replicas: 1}}}",
			want: map[string]string{"graph-decode-1-a": "Deployment/graph-decode of DynamoGraphDeployment/graph role decode model qwen",
				"graph-prefill-1-a": "Deployment/graph-prefill of DynamoGraphDeployment/graph role prefill model qwen"},
			routes: map[string]string{"graph-decode-1-a": "Deployment/graph-frontend"},
		},
		"a DynamoGraphDeployment v1beta1 over several nodes": {
			objects: []runtime.Object{
				enginePod("g-0-decode-0-ldr", tags{dynamoGraph: "g", dynamoComponent: "decode", dynamoType: "decode",
					groveGroup: "g-0-decode", groveGroupIndex: "0"}, owned("PodClique", "g-0-decode-0-ldr"), "python3", "-m", "dynamo.vllm",
					"--model", "qwen"),
				enginePod("g-0-decode-0-wkr", tags{dynamoGraph: "g", dynamoComponent: "decode", dynamoType: "decode",
					groveGroup: "g-0-decode", groveGroupIndex: "0"}, owned("PodClique", "g-0-decode-0-wkr"), "python3", "-m",
					"dynamo.vllm"),
				enginePod("g-0-fill-a", tags{dynamoGraph: "g", dynamoComponent: "fill"}, owned("PodClique", "g-0-fill"), "python3", "-m",
					"dynamo.vllm", "--model", "qwen")},
			custom: "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\n" +
				"spec: {components: [{name: decode, type: decode, replicas: 3}, {name: fill, type: prefill, replicas: 1}]}",
			want: map[string]string{"g-0-decode-0-ldr": "PodCliqueScalingGroup/g-0-decode of DynamoGraphDeployment/g group 0 role decode model qwen",
				"g-0-decode-0-wkr": "PodCliqueScalingGroup/g-0-decode of DynamoGraphDeployment/g group 0 role decode model qwen",
				"g-0-fill-a":       "PodClique/g-0-fill of DynamoGraphDeployment/g role prefill model qwen"},
			samples: map[string]float64{"replicas_desired": 3, "replicas_ready": 1},
		},
		"an InferenceService": {
			objects: append(deploymentOf("llama-predictor", owned("InferenceService", "llama")),
				enginePod("llama-predictor-1-a", nil, owned("ReplicaSet", "llama-predictor-1"), "--model_name=llama", "--model_id=x/y")),
			want: map[string]string{"llama-predictor-1-a": "Deployment/llama-predictor of InferenceService/llama model llama"},
		},
		"an InferenceService over several nodes, in a rollout": {
			objects: slices.Concat(deploymentOf("llama-predictor", owned("InferenceService", "llama")),
				deploymentOf("llama-predictor-worker", owned("InferenceService", "llama")), []runtime.Object{
					kserve("llama-predictor-1-a", "llama-predictor-1", "3", "bash", "-c",
						"ray start --head\npython -m huggingfaceserver --tensor-parallel-size=${TENSOR_PARALLEL_SIZE} $0 $@",
						"--model_name=llama"),
					kserve("llama-predictor-worker-1-a", "llama-predictor-worker-1", "3", "bash", "-c",
						"ray start --address=${RAY_HEAD_ADDRESS} --block"),
					kserve("llama-predictor-worker-1-b", "llama-predictor-worker-1", "3", "bash", "-c",
						"ray start --address=${RAY_HEAD_ADDRESS} --block"),
					kserve("llama-predictor-worker-2-a", "llama-predictor-worker-2", "4", "bash", "-c",
						"ray start --address=${RAY_HEAD_ADDRESS} --block")}),
			want: map[string]string{"llama-predictor-1-a": "Deployment/llama-predictor of InferenceService/llama group 3 model llama",
				"llama-predictor-worker-1-a": "Deployment/llama-predictor of InferenceService/llama group 3 model llama",
				"llama-predictor-worker-1-b": "Deployment/llama-predictor of InferenceService/llama group 3 model llama",
				"llama-predictor-worker-2-a": "Deployment/llama-predictor of InferenceService/llama group 4"},
			samples: map[string]float64{"replicas_desired": 1},
		},
		"an LLMInferenceService with both phases, by labels": {
			objects: append(append(deploymentOf("l-kserve", nil), deploymentOf("l-kserve-prefill", nil)...),
				enginePod("l-kserve-1-a", tags{partOf: "llminferenceservice", appName: "l", appComponent: "llminferenceservice-workload"},
					owned("ReplicaSet", "l-kserve-1"), "serve", "m"),
				enginePod("l-kserve-prefill-1-a", tags{partOf: "llminferenceservice", appName: "l",
					appComponent: "llminferenceservice-workload-prefill"}, owned("ReplicaSet", "l-kserve-prefill-1"), "serve", "m")),
			want: map[string]string{"l-kserve-1-a": "Deployment/l-kserve of LLMInferenceService/l role decode model m",
				"l-kserve-prefill-1-a": "Deployment/l-kserve-prefill of LLMInferenceService/l role prefill model m"},
		},
		"an LLMInferenceService as KServe 0.20 makes it, with the tokens for its picker": {
			objects: slices.Concat(deploymentOf("l-kserve", owned("LLMInferenceService", "l")), deploymentOf("l-tokenizer",
				owned("LLMInferenceService", "l")), []runtime.Object{
				llmisvc("l-kserve-1-a", "l-kserve-1", "llminferenceservice-workload",
					"if true; then\n  KV_TRANSFER_ARGS=\"\"\nfi\n\n"+
						"eval \"exec vllm serve /mnt/models \\\n  --served-model-name \"m\" \"publishers/llm/models/m\" \\\n  --port 8000 \\\n  "+
						"${VLLM_ADDITIONAL_ARGS} \\\n  $@\""),
				llmisvc("l-tokenizer-1-a", "l-tokenizer-1", "tokenizer", "exec vllm launch render /mnt/models/base \\\n  --port=8000"),
			}),
			want: map[string]string{"l-kserve-1-a": "Deployment/l-kserve of LLMInferenceService/l model m"},
		},
		"a DynamoGraphDeployment by a DisaggregatedSet": {
			objects: []runtime.Object{dsPod("g-disagg-0-5f2c-fill-0", "fill", "prefill"), dsPod("g-disagg-0-5f2c-decode-0", "decode",
				"decode")},
			custom: "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n" +
				"metadata: {name: g-disagg-0-5f2c-fill, ownerReferences: [{apiVersion: v1, kind: DisaggregatedSet, name: g-disagg, uid: u, controller: true}]}\n" +
				"spec: {replicas: 1}\n---\n" +
				"apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n" +
				"metadata: {name: g-disagg-0-5f2c-decode, ownerReferences: [{apiVersion: v1, kind: DisaggregatedSet, name: g-disagg, uid: u, controller: true}]}\n" +
				"spec: {replicas: 1}\n",
			want: map[string]string{"g-disagg-0-5f2c-fill-0": "LeaderWorkerSet/g-disagg-0-5f2c-fill of DynamoGraphDeployment/g group 0 role prefill model qwen",
				"g-disagg-0-5f2c-decode-0": "LeaderWorkerSet/g-disagg-0-5f2c-decode of DynamoGraphDeployment/g group 0 role decode model qwen"},
		},
		"TensorRT-LLM's phases and their server": {
			objects: slices.Concat(deploymentOf("ctx", nil), deploymentOf("gen", nil), deploymentOf("front", nil), []runtime.Object{
				trt("ctx-1-a", "trtllm-serve", "m", "--server_role", "CONTEXT"), trt("gen-1-a", "trtllm-serve", "serve", "m",
					"--server_role", "generation"),
				trt("front-1-a", "trtllm-serve", "disaggregated", "-c", "disagg_config.yaml")}),
			want: map[string]string{"ctx-1-a": "Deployment/ctx role prefill model m", "gen-1-a": "Deployment/gen role decode model m"},
		},
		"InferencePools of both groups": { // releases 1.0 to 1.4 of the extension install both kinds
			objects: append(deploymentOf("vllm-llama", nil),
				enginePod("vllm-llama-1-a", tags{"app": "llama"}, owned("ReplicaSet", "vllm-llama-1"), "serve", "m"),
				enginePod("old", tags{"app": "old"}, nil, "serve", "n"),
				func() *corev1.Pod {
					p := enginePod("picker", tags{"app": "llama-epp"}, nil)
					p.Spec.Containers = []corev1.Container{{Name: "epp", Image: "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"},
						render}
					return p
				}(),
				func() *corev1.Pod {
					p := enginePod("load", nil, owned("Job", "load"), "vllm", "bench", "serve", "--model", "m")
					return p
				}()),
			custom: "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: new-pool}\nspec: {selector: {matchLabels: {app: llama}}}\n---\n" +
				"apiVersion: inference.networking.x-k8s.io/v1alpha2\nkind: InferencePool\nmetadata: {name: old-pool}\n" +
				"spec: {selector: {app: old}, targetPortNumber: 8000}\n---\n" +
				"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\n" +
				"spec: {parentRefs: [{name: public}], rules: [{backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePool, name: old-pool}]}]}",
			want:   map[string]string{"vllm-llama-1-a": "Deployment/vllm-llama model m", "old": "/ model n"},
			routes: map[string]string{"vllm-llama-1-a": "InferencePool/new-pool", "old": "Gateway/public InferencePool/old-pool"},
		},
		"a RayService": {
			objects: []runtime.Object{ray("head", "head", "ray", "start", "--head"), ray("w1", "worker", "ray", "start"),
				ray("w2", "worker", "ray", "start")},
			custom: "apiVersion: ray.io/v1\nkind: RayCluster\n" +
				"metadata: {name: chat-x7k2p, labels: {ray.io/originated-from-crd: RayService, ray.io/originated-from-cr-name: chat}}\n---\n" +
				"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: chat}\nspec:\n  serveConfigV2: |\n    applications:\n    - args:\n        llm_configs:\n" +
				"        - model_loading_config: {model_id: qwen-7b}\n          engine_kwargs: {max_num_seqs: 64}\n",
			want:    map[string]string{"w1": "RayService/chat model qwen-7b", "w2": "RayService/chat model qwen-7b"},
			samples: map[string]float64{"max_num_seqs": 64},
		},
		"a RayService whose engine needs every pod": {
			objects: []runtime.Object{ray("head", "head", "ray", "start", "--head"), ray("w1", "worker", "ray", "start"),
				ray("w2", "worker", "ray", "start")},
			custom: rayService(overTwo, "desiredGPU: '8'"),
			want: map[string]string{"w1": "RayService/chat group chat-x7k2p model deepseek",
				"w2": "RayService/chat group chat-x7k2p model deepseek"},
			notes: noHead,
		},
		"a RayService whose engine needs every pod, one of which is lost": {
			objects: []runtime.Object{ray("w1", "worker", "ray", "start")},
			custom:  rayService(overTwo, "desiredGPU: '8'"),
			want:    map[string]string{"w1": "RayService/chat group chat-x7k2p model deepseek"},
		},
		"a RayService of two engines, half of whose pods are lost": { // it is unknown whether the pods belong to one engine
			objects: []runtime.Object{ray("w1", "worker", "ray", "start"), ray("w2", "worker", "ray", "start")},
			custom:  rayService(overTwo, "desiredGPU: '16'"),
			want:    map[string]string{"w1": "RayService/chat model deepseek", "w2": "RayService/chat model deepseek"},
			notes:   noHead,
		},
		"a RayService whose engine fits on one pod": {
			objects: []runtime.Object{ray("w1", "worker", "ray", "start")},
			custom:  rayService("engine_kwargs: {tensor_parallel_size: 4}", "desiredGPU: '4'"),
			want:    map[string]string{"w1": "RayService/chat model deepseek"},
		},
		"a RayService whose GPUs are bundled by hand": {
			objects: []runtime.Object{ray("w1", "worker", "ray", "start"), ray("w2", "worker", "ray", "start")},
			custom:  rayService(overTwo+"\n          placement_group_config: {bundles: [{GPU: 0.5}]}", "desiredGPU: '8'"),
			want:    map[string]string{"w1": "RayService/chat model deepseek", "w2": "RayService/chat model deepseek"},
			notes:   noHead,
		},
		"a RayService of two models": {
			objects: []runtime.Object{ray("w1", "worker", "ray", "start"), ray("w2", "worker", "ray", "start")},
			custom:  rayService(overTwo+"\n        - model_loading_config: {model_id: qwen-7b}", "desiredGPU: '8'"),
			want:    map[string]string{"w1": "RayService/chat", "w2": "RayService/chat"},
			notes:   noHead,
		},
		"a RayCluster that is one engine": {
			objects: []runtime.Object{ray("head", "head", "sh", "-c",
				"ray start --head && vllm serve llama-405b --pipeline-parallel-size 2"), ray("w1", "worker", "ray", "start")},
			custom: "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: chat-x7k2p}",
			want: map[string]string{"head": "RayCluster/chat-x7k2p group chat-x7k2p model llama-405b",
				"w1": "RayCluster/chat-x7k2p group chat-x7k2p model llama-405b"},
		},
		"multi-host replicas of Ray": {
			objects: []runtime.Object{func() *corev1.Pod {
				p := ray("w1", "worker", "ray", "start")
				p.Labels[rayReplica] = "tpu-af03d"
				return p
			}()},
			custom: "apiVersion: ray.io/v1\nkind: RayCluster\n" +
				"metadata: {name: chat-x7k2p, ownerReferences: [{apiVersion: v1, kind: RayService, name: chat, uid: u, controller: true}]}\n---\n" +
				"apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: chat}\nspec: {serveConfigV2: 'applications: [{args: {llm_configs: [a.yaml]}}]'}",
			want: map[string]string{"w1": "RayService/chat group tpu-af03d"},
		},
		"SGLang over two nodes of a StatefulSet": {
			objects: []runtime.Object{
				enginePod("sg-1", nil, owned("StatefulSet", "sg"), "--model-path", "m", "--nnodes", "2"), enginePod("sg-2", nil,
					owned("StatefulSet", "sg"), "--model-path", "m", "--nnodes", "2")},
			want: map[string]string{"sg-1": "StatefulSet/sg group 0 model m", "sg-2": "StatefulSet/sg group 1 model m"},
		},
		"routes to a pool": {
			objects: append(deploymentOf("vllm-llama", nil), epp,
				enginePod("vllm-llama-1-a", tags{"app": "llama", "v": "2"}, owned("ReplicaSet", "vllm-llama-1"), "serve", "m"),
				enginePod("other", tags{"app": "other"}, nil, "serve", "n"),
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "llama", Namespace: "llm"},
					Spec: corev1.ServiceSpec{Selector: tags{"app": "llama"}}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: "web"},
					Spec: corev1.ServiceSpec{Selector: tags{"app": "llama"}}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "headless", Namespace: "llm"}}),
			custom: "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: llama-pool}\nspec: {selector: {matchLabels: {app: llama}}}\n---\n" +
				"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\n" +
				"spec: {parentRefs: [{name: public, namespace: gateways}], rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: " +
				"llama-pool}]}]}",
			want:   map[string]string{"vllm-llama-1-a": "Deployment/vllm-llama model m", "other": "/ model n"},
			routes: map[string]string{"vllm-llama-1-a": "Gateway/public InferencePool/llama-pool Service/llama", "other": ""},
		},
	}
}

func TestTopologyOfEveryOwner(t *testing.T) {
	for name, c := range worlds() {
		t.Run(name, func(t *testing.T) {
			r := New(fake.NewClientset(c.objects...), customClient(written(t, c.custom)...)).Read(t.Context(), query(t))
			got, routes := map[string]string{}, map[string]string{}
			for _, w := range r.Workers {
				got[w.Pod], routes[w.Pod] = seen(w), strings.Join(w.Routes, " ")
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("workers\n%v, want\n%v", got, c.want)
			}
			for pod, want := range c.routes {
				if routes[pod] != want {
					t.Errorf("%s is behind %q, want %q", pod, routes[pod], want)
				}
			}
			values := map[string]float64{}
			for _, s := range r.Samples {
				values[s.Signal] = max(values[s.Signal], s.Value)
			}
			for id, want := range c.samples {
				if values[id] != want {
					t.Errorf("%s is %v, want %v", id, values[id], want)
				}
			}
			notes := ""
			for _, n := range r.Notes {
				notes += n.Signal + ": " + n.Reason
			}
			if notes != c.notes {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
		})
	}
}

func TestMissingOrForbiddenKindsAreSkipped(t *testing.T) {
	c := worlds()["a LeaderWorkerSet of an LLMInferenceService"]
	custom, lists := customClient(), 0
	custom.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		gr := a.GetResource().GroupResource()
		if gr.Resource == "leaderworkersets" {
			return true, nil, apierrors.NewForbidden(gr, "", errors.New("no"))
		}
		return true, nil, apierrors.NewNotFound(gr, "")
	})
	client := New(fake.NewClientset(c.objects...), custom)
	q := query(t)
	read := func() enrich.Reading { return client.Read(t.Context(), q) }
	r := read()
	if len(r.Workers) != 3 || r.Workers[0].Group != "0" || r.Workers[0].PoolKind != "LeaderWorkerSet" {
		t.Errorf("by labels: %+v", r.Workers)
	}
	if len(r.Failed) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0].Reason, "leaderworkersets") ||
		!strings.Contains(r.Notes[0].Reason, "forbidden") {
		t.Errorf("failed %v, notes %v", r.Failed, r.Notes)
	}
	before := lists
	if read(); lists != before+1 {
		t.Errorf("%d lists of kinds that were not there a moment ago", lists-before-1)
	}
	q.Now = q.Now.Add(absentFor)
	if read(); lists != 2*before+1 {
		t.Errorf("a kind that was installed later is never listed: %d lists", lists)
	}
}
