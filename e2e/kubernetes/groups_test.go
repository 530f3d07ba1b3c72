package kubernetes

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withGPU is a container that has a GPU of its own.
func withGPU(image string, command ...string) corev1.Container {
	return corev1.Container{Name: "main", Image: image, Command: command,
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}
}

// predictor makes what KServe makes of an InferenceService with worker pods: a Deployment of the head and one of the workers.
func predictor(t *testing.T, ns, name string, service *unstructured.Unstructured) {
	t.Helper()
	const image = "kserve/huggingfaceserver:v0.15.2-gpu"
	labels := func() map[string]string {
		return map[string]string{"serving.kserve.io/inferenceservice": name, "isvc.generation": "1", "component": "predictor"}
	}
	owned(t, ns, name+"-predictor", labels(), service, withGPU(image, "bash", "-c", "ray start --head && python -m huggingfaceserver --model_name="+name))
	owned(t, ns, name+"-predictor-worker", labels(), service, withGPU(image, "bash", "-c", "ray start --address=${RAY_HEAD_ADDRESS} --block"))
}

// rayWorkers makes the worker pods of a RayCluster.
func rayWorkers(t *testing.T, ns string, cluster *unstructured.Unstructured, names ...string) {
	t.Helper()
	for _, name := range names {
		must(admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.GetName() + "-gpu-worker-" + name, OwnerReferences: ownedBy(cluster),
				Labels: map[string]string{"ray.io/cluster": cluster.GetName(), "ray.io/group": "gpu", "ray.io/node-type": "worker"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{withGPU("rayproject/ray-llm:2.52.0-py311-cu128", "/bin/bash", "-c", "ray start --block")}}}, metav1.CreateOptions{}))(t)
	}
}

// nodesOf makes a StatefulSet whose pods find each other by their ordinals.
func nodesOf(t *testing.T, ns, name string, replicas int32, c corev1.Container) {
	t.Helper()
	labels := map[string]string{"app": name}
	must(admin.AppsV1().StatefulSets(ns).Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}}}, metav1.CreateOptions{}))(t)
}

// Parallel groups of kinds that say less of them than a LeaderWorkerSet does. Of the RayService that serves two engines nobody but Ray knows
// which pods are whose.
func TestParallelGroupsOfServicesAndStatefulSets(t *testing.T) {
	t.Parallel()
	ns := stage(t)
	predictor(t, ns, "llama", apply(t, ns, "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: llama}\n"+
		"spec: {predictor: {model: {modelFormat: {name: huggingface}, storageUri: 'pvc://models/llama'}, workerSpec: {tensorParallelSize: 1, pipelineParallelSize: 2}}}", nil)[0])
	for _, s := range []struct {
		name, gpus string
		workers    []string
	}{{"chat", "2", []string{"a", "b"}}, {"search", "4", []string{"a", "b", "c", "d"}}} {
		service := apply(t, ns, "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: "+s.name+"}\nspec:\n  serveConfigV2: |\n    applications:\n    - args:\n        llm_configs:\n"+
			"        - model_loading_config: {model_id: deepseek}\n          engine_kwargs: {pipeline_parallel_size: 2}\n", nil)[0]
		cluster := apply(t, ns, "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: "+s.name+"-x7k2p}\nstatus: {desiredGPU: '"+s.gpus+"'}", service)[0]
		rayWorkers(t, ns, cluster, s.workers...)
	}
	nodesOf(t, ns, "ranks", 4, withGPU("lmsysorg/sglang:v0.5.5", "python3", "-m", "sglang.launch_server", "--model-path", "qwen-235b", "--nnodes", "2"))
	nodesOf(t, ns, "single", 2, withGPU("vllm/vllm-openai:v0.24.0", "vllm", "serve", "qwen-7b"))

	sees(t, watcher(t, func(dir string) string { return kubeconfig(t, dir, control.Config.Host) }), ns, map[string]string{
		"llama-predictor": "1 of 2 llama  InferenceService/llama",
		"chat":            "1 of 2 deepseek",
		"search":          "4 of 4 deepseek",
		"ranks":           "2 of 4 qwen-235b",
		"single":          "2 of 2 qwen-7b",
	})
}
