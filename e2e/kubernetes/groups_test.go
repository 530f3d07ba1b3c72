package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"paramedic/e2e/bot"
	"paramedic/rules/enrich/ray/raytest"
)

// withGPU returns a container with one GPU.
func withGPU(image string, command ...string) corev1.Container {
	return corev1.Container{Name: "main", Image: image, Command: command,
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}
}

// predictor creates the Deployments that KServe creates for an InferenceService with worker pods:
// one of the head and one of the workers.
func predictor(t *testing.T, ns, name string, service *unstructured.Unstructured) {
	t.Helper()
	const image = "kserve/huggingfaceserver:v0.15.2-gpu"
	labels := func() map[string]string {
		return map[string]string{"serving.kserve.io/inferenceservice": name, "isvc.generation": "1", "component": "predictor"}
	}
	owned(t, ns, name+"-predictor", labels(), service, withGPU(image, "bash", "-c", "ray start --head && python -m huggingfaceserver "+
		"--model_name="+name))
	owned(t, ns, name+"-predictor-worker", labels(), service,
		withGPU(image, "bash", "-c", "ray start --address=${RAY_HEAD_ADDRESS} --block"))
}

// rayPod creates a pod of a RayCluster.
func rayPod(t *testing.T, ns string, cluster *unstructured.Unstructured, kind, name string, c corev1.Container) string {
	t.Helper()
	name = cluster.GetName() + "-" + name
	must(admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: ownedBy(cluster),
			Labels: map[string]string{"ray.io/cluster": cluster.GetName(), "ray.io/group": kind + "s", "ray.io/node-type": kind}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}, metav1.CreateOptions{}))(t)
	return name
}

// addressOf waits until a pod has an address.
func addressOf(t *testing.T, ns, pod string) (ip string) {
	t.Helper()
	bot.Eventually(t, 30*time.Second, pod+" has an address", func() error {
		p, err := admin.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{})
		if err == nil && p.Status.PodIP == "" {
			err = errors.New("it has none")
		}
		if err == nil {
			ip = p.Status.PodIP
		}
		return err
	})
	return ip
}

// A rayService is a RayService with its one RayCluster, whose workers have one GPU each.
type rayService struct {
	name    string
	models  string            // llm_configs
	workers []string          // suffixes of their names
	engines map[string]string // deployment#replica → its workers
}

// serve creates the service. The dashboard of its head lists the engines' workers.
func (s rayService) serve(t *testing.T, ns string) {
	t.Helper()
	service := apply(t, ns, "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: "+s.name+
		"}\nspec:\n  serveConfigV2: |\n    applications:\n    - name: llms\n      args:\n        llm_configs:\n"+s.models, nil)[0]
	cluster := apply(t, ns, fmt.Sprintf("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: %s-x7k2p}\nstatus: {desiredGPU: '%d'}",
		s.name, len(s.workers)), service)[0]
	const image = "rayproject/ray-llm:2.52.0-py311-cu128"
	head := rayPod(t, ns, cluster, "head", "head",
		corev1.Container{Name: "ray-head", Image: image, Command: []string{"/bin/bash", "-c", "ray start --head --block"},
			Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8080}, {Name: "dashboard", ContainerPort: 8265}}})
	pods := map[string]string{}
	for _, w := range s.workers {
		pods[w] = rayPod(t, ns, cluster, "worker", w, withGPU(image, "/bin/bash", "-c", "ray start --block"))
	}
	var replicas []raytest.Replica
	for name, on := range s.engines {
		r := raytest.Replica{Name: "SERVE_REPLICA::llms#" + name}
		for _, w := range on {
			r.Bundles = append(r.Bundles, raytest.Bundle{GPUs: 1, IP: addressOf(t, ns, pods[string(w)])})
		}
		replicas = append(replicas, r)
	}
	dashboard := &raytest.Dashboard{}
	dashboard.Set(replicas...)
	listener := must((&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(addressOf(t, ns, head), "8265")))(t)
	srv := &http.Server{Handler: dashboard, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(listener) }() // until it is closed
	t.Cleanup(func() {
		srv.Close()
		for _, p := range dashboard.Problems() {
			t.Errorf("%s: Ray refuses %s", s.name, p)
		}
	})
}

// nodesOf creates a StatefulSet whose pods are the nodes of a group.
func nodesOf(t *testing.T, ns, name string, replicas int32, c corev1.Container) {
	t.Helper()
	labels := map[string]string{"app": name}
	must(admin.AppsV1().StatefulSets(ns).
		Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}}}, metav1.CreateOptions{}))(t)
}

// These kinds describe their parallel groups less fully than a LeaderWorkerSet. If a RayService has
// more than one engine, only Ray's dashboard has the pods of each.
func TestParallelGroupsOfServicesAndStatefulSets(t *testing.T) {
	t.Parallel()
	ns := stage(t)
	predictor(t, ns, "llama", apply(t, ns, "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: llama}\n"+
		"spec: {predictor: {model: {modelFormat: {name: huggingface}, storageUri: 'pvc://models/llama'}, workerSpec: "+
		"{tensorParallelSize: 1, pipelineParallelSize: 2}}}", nil)[0])
	const big = "        - {model_loading_config: {model_id: deepseek}, engine_kwargs: {pipeline_parallel_size: 2}}\n"
	for _, s := range []rayService{
		{"chat", big, []string{"a", "b"}, map[string]string{"LLMServer:deepseek#x1": "ab"}},
		{"search", big, []string{"a", "b", "c", "d"}, map[string]string{"LLMServer:deepseek#x1": "ac", "LLMServer:deepseek#x2": "bd"}},
		{"both", big + "        - {model_loading_config: {model_id: qwen-7b}}\n", []string{"a", "b", "c"},
			map[string]string{"LLMServer:deepseek#x1": "ac", "LLMServer:qwen-7b#x2": "b"}},
		{"hand", "        - {model_loading_config: {model_id: deepseek}, placement_group_config: {bundles: [{GPU: 1}, {GPU: 1}]}}\n",
			[]string{"a", "b", "c"}, map[string]string{"LLMServer:deepseek#x1": "bc"}},
	} {
		s.serve(t, ns)
	}
	nodesOf(t, ns, "ranks", 4,
		withGPU("lmsysorg/sglang:v0.5.5", "python3", "-m", "sglang.launch_server", "--model-path", "qwen-235b", "--nnodes", "2"))
	nodesOf(t, ns, "single", 2, withGPU("vllm/vllm-openai:v0.24.0", "vllm", "serve", "qwen-7b"))

	b := watcher(t, func(dir string) string { return kubeconfig(t, dir, control.Config.Host) })
	sees(t, b, ns, map[string]string{
		"llama-predictor": "1 of 2 llama  InferenceService/llama",
		"chat":            "1 of 2 deepseek",
		"search":          "2 of 4 deepseek",
		"both":            "2 of 3 deepseek, qwen-7b",
		"hand":            "2 of 3 deepseek", // an engine, and a pod without one
		"ranks":           "2 of 4 qwen-235b",
		"single":          "2 of 2 qwen-7b",
	})

	died(t, ns, "search-x7k2p-c", gated)
	crashing(t, b, "KubePodCrashLooping", map[string]string{"namespace": ns, "pod": "search-x7k2p-c"})
	in := diagnosed(t, b)
	if in.Title != "search-x7k2p-c may not fetch its model (1 of 2 workers)" || in.Scope.Pool != "search" ||
		!slices.Equal(in.Scope.Pods, []string{"search-x7k2p-c"}) {
		t.Errorf("%s: %+v", in.Title, in.Scope)
	}
}
