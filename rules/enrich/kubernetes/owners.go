package kubernetes

import (
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paramedic/internal/commandline"
)

// Labels that controllers set on the pods that they own.
const (
	lwsName  = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup = "leaderworkerset.sigs.k8s.io/group-index"

	dynamoGraph     = "nvidia.com/dynamo-graph-deployment-name"
	dynamoComponent = "nvidia.com/dynamo-component"
	dynamoType      = "nvidia.com/dynamo-component-type"     // frontend, worker, prefill, decode, planner, epp
	dynamoSubType   = "nvidia.com/dynamo-sub-component-type" // prefill, decode

	groveGroup      = "grove.io/podcliquescalinggroup" // Dynamo's operator creates one for a component of several nodes
	groveGroupIndex = "grove.io/podcliquescalinggroup-replica-index"

	rayCluster  = "ray.io/cluster"
	rayNode     = "ray.io/node-type" // head, worker
	rayGroup    = "ray.io/group"
	rayReplica  = "ray.io/worker-group-replica-name" // shared by the hosts of one multi-host replica
	rayFromKind = "ray.io/originated-from-crd"
	rayFromName = "ray.io/originated-from-cr-name"

	kserveService = "serving.kserve.io/inferenceservice"
	kserveNodes   = "isvc.generation" // only set on the pods of a predictor over several nodes
	partOf        = "app.kubernetes.io/part-of"
	appName       = "app.kubernetes.io/name"
	appComponent  = "app.kubernetes.io/component"

	disaggregatedName = "disaggregatedset.x-k8s.io/name"
	disaggregatedRole = "disaggregatedset.x-k8s.io/role"
	llmdRole          = "llm-d.ai/role"
)

// An object is identified by its namespace, kind and name.
type object struct{ namespace, kind, name string }

// authored are the kinds that users write and that controllers turn into workloads. Their own
// owners do not matter.
var authored = map[string]bool{
	"DynamoGraphDeployment": true, "InferenceService": true, "LLMInferenceService": true, "RayService": true,
	"DisaggregatedSet": true,
}

// ownersOf returns the controller of each object that was read.
func ownersOf(s *snapshot) map[object]object {
	owners := map[object]object{}
	add := func(kind string, m metav1.Object) {
		if o, ok := controllerOf(m); ok {
			owners[object{m.GetNamespace(), kind, m.GetName()}] = o
		}
	}
	for i := range s.replicaSets {
		add("ReplicaSet", &s.replicaSets[i])
	}
	for i := range s.deployments {
		add("Deployment", &s.deployments[i])
	}
	for i := range s.statefulSets {
		add("StatefulSet", &s.statefulSets[i])
	}
	for kind, list := range s.custom {
		for i := range list {
			add(kind, &list[i])
			// A RayCluster keeps this label even if it has lost its RayService's reference.
			if l := list[i].GetLabels(); kind == "RayCluster" && l[rayFromName] != "" {
				ns := list[i].GetNamespace()
				owners[object{ns, kind, list[i].GetName()}] = object{ns, l[rayFromKind], l[rayFromName]}
			}
		}
	}
	return owners
}

// controllerOf returns the owner that controls an object, or its only owner.
func controllerOf(m metav1.Object) (object, bool) {
	if o := metav1.GetControllerOf(m); o != nil {
		return object{m.GetNamespace(), o.Kind, o.Name}, true
	}
	if all := m.GetOwnerReferences(); len(all) == 1 {
		return object{m.GetNamespace(), all[0].Kind, all[0].Name}, true
	}
	return object{}, false
}

// workloadOf returns the object that a pod is rolled out with. This is the Deployment of a
// ReplicaSet, and the LeaderWorkerSet instead of the StatefulSets of its groups. It is the
// RayService of a RayCluster, which an upgrade replaces. For KServe's worker pods, which have a
// Deployment of their own, it is the Deployment of the head.
func (b *builder) workloadOf(p *corev1.Pod) object {
	ns := p.Namespace
	if lws := p.Labels[lwsName]; lws != "" {
		return object{ns, "LeaderWorkerSet", lws}
	}
	if g := p.Labels[groveGroup]; g != "" {
		return object{ns, "PodCliqueScalingGroup", g}
	}
	if isMultiNode(p) {
		return object{ns, "Deployment", p.Labels[kserveService] + "-predictor"}
	}
	o, ok := controllerOf(p)
	if ray := p.Labels[rayCluster]; ray != "" {
		o, ok = object{ns, "RayCluster", ray}, true
	}
	if !ok {
		return object{}
	}
	up, known := b.owners[o]
	switch {
	case o.kind == "ReplicaSet" && known, o.kind == "RayCluster" && up.kind == "RayService":
		return up
	case o.kind == "ReplicaSet":
		// Without the list of ReplicaSets: the name is the Deployment's, then the template's hash.
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && strings.HasSuffix(o.name, "-"+hash) {
			return object{ns, "Deployment", strings.TrimSuffix(o.name, "-"+hash)}
		}
	}
	return o
}

// ownerOf returns the resource that a workload was created for, by owner references if they were
// read, else by labels.
func (b *builder) ownerOf(p *corev1.Pod, w object) object {
	top, at := object{}, w
	for range 8 { // a limit, because owner references may form a circle
		o, ok := b.owners[at]
		if !ok {
			break
		}
		// Dynamo's operator creates a DisaggregatedSet for a graph.
		if authored[o.kind] && (o.kind != "DisaggregatedSet" || p.Labels[dynamoGraph] == "") {
			return o
		}
		top, at = o, o
	}
	l := p.Labels
	for _, by := range []struct{ kind, name string }{
		{"DynamoGraphDeployment", l[dynamoGraph]}, {"InferenceService", l[kserveService]},
		{"DisaggregatedSet", l[disaggregatedName]}, {l[rayFromKind], l[rayFromName]},
	} {
		if by.name != "" && (object{p.Namespace, by.kind, by.name}) != w {
			return object{p.Namespace, by.kind, by.name}
		}
	}
	if l[partOf] == "llminferenceservice" && l[appName] != "" {
		return object{p.Namespace, "LLMInferenceService", l[appName]}
	}
	return top
}

// isMultiNode reports whether the pod is the head or a worker of a KServe predictor with worker
// pods. Its pods find each other by a Service that selects one generation of the InferenceService,
// and form one engine. KServe creates the workers that one head needs and refuses to autoscale
// them.
func isMultiNode(p *corev1.Pod) bool {
	return p.Labels[kserveService] != "" && p.Labels[kserveNodes] != ""
}

// groupOf returns the parallel group of a pod within its workload, or "" for an engine of one pod.
func (b *builder) groupOf(p *corev1.Pod, w object, command []string) string {
	l := p.Labels
	ray := rayClusterOf(p)
	byRay, placedByRay := b.placed[p.Namespace+"/"+p.Name]
	switch {
	case w.kind == "LeaderWorkerSet":
		return l[lwsGroup]
	case w.kind == "PodCliqueScalingGroup":
		return l[groveGroupIndex]
	case placedByRay:
		return byRay.group
	case b.singleEngine[ray] || b.spanning[ray]:
		return l[rayCluster]
	case l[rayReplica] != "":
		return l[rayReplica]
	case isMultiNode(p):
		return l[kserveNodes]
	}
	// vLLM and SGLang over several nodes of a StatefulSet: ranks follow the ordinals.
	n, err := strconv.Atoi(first(commandline.Flag(command, "nnodes")))
	at := strings.LastIndexByte(p.Name, '-')
	if w.kind != "StatefulSet" || err != nil || n < 2 || at < 0 {
		return ""
	}
	ordinal, err := strconv.Atoi(p.Name[at+1:])
	if err != nil {
		return ""
	}
	return strconv.Itoa(ordinal / n)
}

func first(v string, _ bool) string { return v }

// roleOf returns the phase of a worker (prefill or decode), or "" if it computes both.
func (b *builder) roleOf(p *corev1.Pod, command []string) string {
	l := p.Labels
	names := []string{b.placed[p.Namespace+"/"+p.Name].models.common().role, l[llmdRole], l[dynamoSubType],
		l[dynamoType], l[disaggregatedRole], b.componentRole(p)}
	names = append(names, first(commandline.Flag(command, "disaggregation-mode"))) // SGLang; Dynamo
	for _, s := range names {
		if s == "prefill" || s == "decode" {
			return s
		}
	}
	if c := l[appComponent]; strings.HasPrefix(c, "llminferenceservice-workload") {
		if strings.HasSuffix(c, "-prefill") || strings.HasSuffix(c, "-prefill-worker") {
			return "prefill"
		}
		return "decode"
	}
	for _, phase := range []string{"prefill", "decode"} {
		if strings.Contains(strings.ToLower(l[rayGroup]), phase) {
			return phase
		}
	}
	switch strings.ToLower(first(commandline.Flag(command, "server-role"))) { // TensorRT-LLM
	case "context":
		return "prefill"
	case "generation":
		return "decode"
	}
	for _, w := range command {
		if w == "--is-prefill-worker" { // Dynamo's vLLM component
			return "prefill"
		}
	}
	// vLLM's connector between the phases. Workers with kv_both compute both phases.
	switch transfer := strings.ReplaceAll(first(commandline.Flag(command, "kv-transfer-config")), " ", ""); {
	case strings.Contains(transfer, `"kv_role":"kv_producer"`):
		return "prefill"
	case strings.Contains(transfer, `"kv_role":"kv_consumer"`):
		return "decode"
	}
	return ""
}

// Programs and images of containers that look like engines, but that route, tokenize or send
// requests.
var (
	routerPrograms = []string{"dynamo.frontend", "dynamo.planner", "dynamo.router", "vllm-router",
		"sglang_router.launch_router", "sglang-router", "sglang.bench_serving"}
	routerImages = []string{"router", "routing-sidecar", "inference-scheduler", "endpoint-picker", "/epp:", "/epp@",
		"tokenizer"}
	// Subcommands of engines' programs that do not serve a model. llm-d's picker and KServe use
	// vLLM as a tokenizer, and TensorRT-LLM's disaggregated server routes to both phases.
	routerCommands = map[string][]string{"vllm": {"launch", "bench"}, "trtllm-serve": {"disaggregated"}}
)

// isRouter reports whether a container routes requests to engines. It checks only the image and the
// programs, because the arguments of a router also name engines and models.
func isRouter(c corev1.Container) bool {
	image := strings.ToLower(c.Image)
	image = "/" + image[strings.LastIndexByte(image, '/')+1:]
	if slices.ContainsFunc(routerImages, func(w string) bool { return strings.Contains(image, w) }) {
		return true
	}
	words := commandOf(c)
	for i, w := range words {
		if w = path.Base(w); slices.Contains(routerPrograms, w) ||
			i+1 < len(words) && slices.Contains(routerCommands[w], words[i+1]) {
			return true
		}
	}
	return false
}

// isFrontend reports whether a pod of a DynamoGraphDeployment is no worker, but a frontend or a
// helper.
func isFrontend(p *corev1.Pod) bool {
	switch p.Labels[dynamoType] {
	case "frontend", "planner", "epp", "global-router", "profiler":
		return true
	}
	return false
}
