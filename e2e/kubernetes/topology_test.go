package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"paramedic/e2e/bot"
	"paramedic/lab/alerting"
	"paramedic/webhook/api"
)

var installed = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":  {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"LeaderWorkerSet":           {Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
	"DynamoGraphDeployment":     {Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"},
	"DynamoComponentDeployment": {Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamocomponentdeployments"},
	"InferencePool":             {Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"},
	"HTTPRoute":                 {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
	"RayService":                {Group: "ray.io", Version: "v1", Resource: "rayservices"},
	"RayCluster":                {Group: "ray.io", Version: "v1", Resource: "rayclusters"},
	"InferenceService":          {Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"},
}

// apply creates objects of any kind. If owner is not nil, it controls them.
func apply(t *testing.T, namespace, docs string, owner *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	client := must(dynamic.NewForConfig(control.Config))(t)
	var out []*unstructured.Unstructured
	r := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(docs)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		u := &unstructured.Unstructured{}
		raw := must(yaml.ToJSON(must(doc, err)(t)))(t)
		if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			continue
		}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		if owner != nil {
			u.SetOwnerReferences(ownedBy(owner))
		}
		// A kind that was just installed may take a moment.
		bot.Eventually(t, 20*time.Second, u.GetKind()+" can be created", func() error {
			made, err := client.Resource(installed[u.GetKind()]).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) && u.GetKind() == "CustomResourceDefinition" {
				return nil // another test installed it
			}
			if err == nil {
				out = append(out, made)
			}
			return err
		})
	}
}

func ownedBy(u *unstructured.Unstructured) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: &yes}}
}

// rank creates one pod of a parallel group.
func rank(t *testing.T, ns, name, group, index string, set *unstructured.Unstructured) {
	t.Helper()
	args := []string{"serve", "llama-405b"}
	if index != "0" {
		args = []string{"--headless"}
	}
	must(admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: ownedBy(set),
			Labels: map[string]string{"app": "ring", "llm-d.ai/role": "decode",
				"leaderworkerset.sigs.k8s.io/name": "ring", "leaderworkerset.sigs.k8s.io/group-index": group,
				"leaderworkerset.sigs.k8s.io/worker-index": index}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: "vllm/vllm-openai:v0.24.0", Args: args}}}},
		metav1.CreateOptions{}))(t)
}

// part creates the Deployment that Dynamo's operator creates for one part of a graph.
func part(t *testing.T, ns, name string, labels map[string]string, owner *unstructured.Unstructured, command ...string) {
	t.Helper()
	labels["nvidia.com/dynamo-graph-deployment-name"] = "graph"
	owned(t, ns, name, labels, owner,
		corev1.Container{Name: "main", Image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0", Command: command})
}

// owned creates a Deployment of one pod that another object controls.
func owned(t *testing.T, ns, name string, labels map[string]string, owner *unstructured.Unstructured, c corev1.Container) {
	t.Helper()
	one := int32(1)
	labels["app"] = name
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: ownedBy(owner)},
		Spec: appsv1.DeploymentSpec{Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}}}
	must(admin.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}))(t)
}

// fleetJSON holds the fields of GET /api/v1/fleet that the test reads.
type fleetJSON struct {
	Pools []struct {
		Namespace, Pool, Model, Role, Owner string
		Workers, Pods                       int
		Routes                              []string
	}
	Missing []struct{ Signal, Reason string }
}

// fleet returns a bot's pools in a namespace as text.
func fleet(b *bot.Bot, ns string) (map[string]string, fleetJSON, error) {
	var f fleetJSON
	code, answer, err := b.Do(http.MethodGet, "/api/v1/fleet", nil, &f)
	if err != nil || code != http.StatusOK {
		return nil, f, fmt.Errorf("%d %s: %w", code, answer, err)
	}
	pools := map[string]string{}
	for _, p := range f.Pools {
		if p.Namespace == ns {
			pools[p.Pool] = strings.TrimSpace(fmt.Sprintf("%d of %d %s %s %s %s", p.Workers, p.Pods, p.Model, p.Role, p.Owner,
				strings.Join(p.Routes, ",")))
		}
	}
	return pools, f, nil
}

// sees waits until a bot's fleet has exactly these pools in the namespace, and fails if the bot
// lacks a right.
func sees(t *testing.T, b *bot.Bot, ns string, want map[string]string) {
	t.Helper()
	bot.Eventually(t, 60*time.Second, "the fleet has its pools", func() error {
		pools, f, err := fleet(b, ns)
		if err != nil {
			return err
		}
		if fmt.Sprint(pools) != fmt.Sprint(want) {
			return fmt.Errorf("\n%v, want\n%v", pools, want)
		}
		for _, m := range f.Missing {
			if strings.HasPrefix(m.Reason, "Ray of ") && !strings.HasPrefix(m.Reason, "Ray of "+ns+"/") {
				continue // a service of another test, whose head is not ready or gone
			}
			if m.Signal == "topology" || strings.Contains(m.Reason, "forbidden") {
				return bot.Final(fmt.Errorf("observer.yaml does not let the bot read all that it reads: %v", m))
			}
		}
		return nil
	})
}

const gated = `huggingface_hub.errors.GatedRepoError: 403 Client Error.
Cannot access gated repo for url https://huggingface.co/acme/secret-model/resolve/main/config.json.`

// died writes a termination message into a pod's status, as a kubelet does with
// FallbackToLogsOnError.
func died(t *testing.T, ns, pod, message string) {
	t.Helper()
	bot.Eventually(t, 30*time.Second, pod+" has died", func() error {
		p, err := admin.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
			return errors.New("it has not started")
		}
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount++
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message,
			StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
		_, err = admin.CoreV1().Pods(ns).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err
	})
}

// bystander returns the kubeconfig of an account that may read built-in kinds and no custom
// resources.
func bystander(t *testing.T, ns, dir string) string {
	t.Helper()
	must(admin.CoreV1().ServiceAccounts(ns).
		Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bystander"}}, metav1.CreateOptions{}))(t)
	must(admin.RbacV1().ClusterRoles().
		Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns + "-bystander"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "events"}, Verbs: []string{"list"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets", "statefulsets"}, Verbs: []string{"list"}}}},
			metav1.CreateOptions{}))(t)
	must(admin.RbacV1().ClusterRoleBindings().
		Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: ns + "-bystander"},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: ns + "-bystander"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bystander", Namespace: ns}}}, metav1.CreateOptions{}))(t)
	token := must(admin.CoreV1().ServiceAccounts(ns).
		CreateToken(t.Context(), "bystander", &authv1.TokenRequest{}, metav1.CreateOptions{}))(t).Status.Token
	kc := clientcmdapi.NewConfig()
	kc.Clusters["e2e"] = &clientcmdapi.Cluster{Server: control.Config.Host, CertificateAuthorityData: control.CA()}
	kc.AuthInfos["bystander"] = &clientcmdapi.AuthInfo{Token: token}
	kc.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "bystander"}
	kc.CurrentContext = "e2e"
	path := filepath.Join(dir, "bystander")
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ownRules is a user's own cause, whose only evidence is the last log lines.
const ownRules = `causes:
  - id: private_model
    title: "{pods} may not fetch its model{of_workers}"
    prior: -10
    scope: pod
    what: The hub refuses the model's files.
    explains: {crash_loop: 3, error_rate: 2, queue_buildup: 1, worker_down: 2}
    evidence:
      - {when: pod_last_error.text == "hub_denied", per: pod, marks: true, signal: pod_last_error, weight: 25, text: "The hub denied {pod} its model ({count} of {total} workers)"}
    do: [Check the token.]
`

func watcher(t *testing.T, kubeconfig func(dir string) string) *bot.Bot {
	t.Helper()
	b := bot.New(t)
	own := filepath.Join(b.Dir(), "rules")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "own.yaml"), []byte(ownRules), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Configure(map[string]any{
		"clusters": []any{map[string]any{"name": "default", "kubernetes": map[string]any{"kubeconfig": kubeconfig(b.Dir())}}},
		"triage":   map[string]any{"settle": "1s", "resolve_hold": "1s", "rules_dir": own},
	})
	b.Start()
	return b
}

func crashing(t *testing.T, b *bot.Bot, alert string, labels map[string]string) {
	t.Helper()
	labels["alertname"], labels["severity"], labels["cluster"] = alert, "critical", "default"
	hook := alerting.Webhook{Version: "4", GroupKey: "{}:{}", WebhookData: alerting.WebhookData{Receiver: "paramedic", Status: "firing",
		GroupLabels: map[string]string{}, CommonLabels: labels, CommonAnnotations: map[string]string{},
		Alerts: []alerting.WebhookAlert{{Status: "firing", Labels: labels, Annotations: map[string]string{}, StartsAt: time.Now().UTC(),
			Fingerprint: fmt.Sprintf("%016x", len(alert))}}}}
	if code, answer, err := b.Do(http.MethodPost, "/webhook/alertmanager", hook, nil); err != nil || code != http.StatusOK {
		t.Fatalf("the webhook answers %d %s (%v)", code, answer, err)
	}
}

// diagnosed waits until a bot has one incident, of the cause in ownRules.
func diagnosed(t *testing.T, b *bot.Bot) (in api.IncidentJSON) {
	t.Helper()
	bot.Eventually(t, 40*time.Second, "the incident is diagnosed", func() error {
		all, err := b.Incidents()
		if err != nil || len(all) != 1 || all[0].Cause != "private_model" {
			return fmt.Errorf("incidents %+v: %w", all, err)
		}
		in = all[0]
		return nil
	})
	return in
}

// stage returns a namespace that accepts pods, after installing all kinds.
func stage(t *testing.T) string {
	t.Helper()
	ns := namespace(t)
	bot.Eventually(t, 10*time.Second, "the namespace takes pods", func() error {
		_, err := admin.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	apply(t, "", string(must(os.ReadFile("../testdata/crds.yaml"))(t)), nil)
	return ns
}

func TestTopologyAndLastWords(t *testing.T) {
	t.Parallel()
	ns := stage(t)
	set := apply(t, ns, "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: ring}\nspec: {replicas: 2, "+
		"leaderWorkerTemplate: {size: 2}}\nstatus: {readyReplicas: 2, updatedReplicas: 2}", nil)[0]
	for _, p := range [][3]string{{"ring-0", "0", "0"}, {"ring-0-1", "0", "1"}, {"ring-1", "1", "0"}, {"ring-1-1", "1", "1"}} {
		rank(t, ns, p[0], p[1], p[2], set)
	}
	graph := apply(t, ns, "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: graph}\nspec: {services: "+
		"{Frontend: {componentType: frontend, replicas: 1}, Decode: {componentType: worker, subComponentType: decode, replicas: 1}, "+
		"Prefill: {componentType: worker, subComponentType: prefill, replicas: 1}}}", nil)[0]
	decode := apply(t, ns, "apiVersion: nvidia.com/v1alpha1\nkind: DynamoComponentDeployment\nmetadata: {name: graph-decode}", graph)[0]
	part(t, ns, "graph-frontend",
		map[string]string{"nvidia.com/dynamo-component-type": "frontend", "nvidia.com/dynamo-component": "Frontend"}, graph, "python3",
		"-m", "dynamo.frontend")
	part(t, ns, "graph-decode", map[string]string{"nvidia.com/dynamo-component-type": "worker", "nvidia.com/dynamo-component": "Decode"},
		decode, "python3", "-m", "dynamo.vllm", "--model", "qwen-32b")
	part(t, ns, "graph-prefill", map[string]string{"nvidia.com/dynamo-component-type": "worker", "nvidia.com/dynamo-component": "Prefill"},
		graph, "python3", "-m", "dynamo.vllm", "--model", "qwen-32b")
	apply(t, ns, "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: llama-pool}\nspec: {selector: "+
		"{matchLabels: {app: ring}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: llama-epp, port: {number: 9002}}}\n---\n"+
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: llama}\nspec: {parentRefs: [{name: public}], "+
		"rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: llama-pool}]}]}", nil)
	died(t, ns, "ring-1-1", gated)

	b := watcher(t, func(dir string) string { return kubeconfig(t, dir, control.Config.Host) })
	want := map[string]string{
		"ring":          "2 of 4 llama-405b decode  Gateway/public,InferencePool/llama-pool",
		"graph-decode":  "1 of 1 qwen-32b decode DynamoGraphDeployment/graph Deployment/graph-frontend",
		"graph-prefill": "1 of 1 qwen-32b prefill DynamoGraphDeployment/graph Deployment/graph-frontend",
	}
	sees(t, b, ns, want)

	crashing(t, b, "KubePodCrashLooping", map[string]string{"namespace": ns, "pod": "ring-1-1"})
	in := diagnosed(t, b)
	if in.Title != "ring-1-1 may not fetch its model (1 of 2 workers)" || in.Scope.Pool != "ring" ||
		!slices.Equal(in.Scope.Pods, []string{"ring-1-1"}) {
		t.Errorf("%s: %+v", in.Title, in.Scope)
	}
	// An alert with the router's name for the pool joins the incident.
	crashing(t, b, "EPPHighErrorRatio", map[string]string{"namespace": ns, "inference_pool": "llama-pool"})
	bot.Eventually(t, 20*time.Second, "the router's alert joins", func() error {
		if all, err := b.Incidents(); err != nil || len(all) != 1 || all[0].AlertCount != 2 {
			return fmt.Errorf("incidents %+v: %w", all, err)
		}
		return nil
	})
	_, page, err := b.Do(http.MethodGet, "/api/v1/incidents/"+string(in.ID), nil, nil)
	if err != nil || strings.Contains(page, "secret-model") || strings.Contains(b.Output(), "secret-model") ||
		!strings.Contains(page, "pod_last_error") {
		t.Errorf("the log's text is public, or its class is missing (%v): %s", err, page)
	}

	if _, err := clientOf(t, "").CoreV1().Pods(ns).GetLogs("ring-0", &corev1.PodLogOptions{}).DoRaw(t.Context()); forbidden(err) {
		t.Errorf("observer.yaml does not let the bot read a log: %v", err)
	}

	// Without the right to read custom resources, labels still identify groups and graphs, and the
	// bot reports the missing kinds.
	blind := watcher(t, func(dir string) string { return bystander(t, ns, dir) })
	bot.Eventually(t, 60*time.Second, "the pools come from labels", func() error {
		pools, f, err := fleet(blind, ns)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(pools["ring"], "2 of 4 llama-405b") ||
			!strings.Contains(pools["graph-decode"], "DynamoGraphDeployment/graph") {
			return fmt.Errorf("pools %v", pools)
		}
		for _, kind := range []string{"leaderworkersets", "dynamographdeployments", "inferencepools", "httproutes", "services"} {
			if !strings.Contains(fmt.Sprint(f.Missing), "listing "+kind) {
				return fmt.Errorf("the bot does not report that it cannot list %s: %v", kind, f.Missing)
			}
		}
		return nil
	})
}
