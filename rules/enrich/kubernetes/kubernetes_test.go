package kubernetes

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func TestMaxNumSeqs(t *testing.T) {
	for name, c := range map[string]struct {
		command, args []string
		want          int
	}{
		"one token":      {nil, []string{"--max-num-seqs=256"}, 256},
		"two tokens":     {nil, []string{"--max-num-seqs", "128"}, 128},
		"underscores":    {nil, []string{"--max_num_seqs=64"}, 64},
		"last wins":      {nil, []string{"--max-num-seqs=256", "--max_num_seqs", "32"}, 32},
		"in a shell":     {[]string{"sh", "-c"}, []string{"exec vllm serve m \\\n --max-num-seqs 96 --port 8000"}, 96},
		"quoted":         {[]string{"/bin/bash", "-lc", `vllm serve "my model" --max-num-seqs='48'`}, nil, 48},
		"sglang":         {nil, []string{"--max-running-requests", "512"}, 512},
		"variable":       {[]string{"sh", "-c", "vllm serve m --max-num-seqs $SEQS"}, nil, 0},
		"absent":         {nil, []string{"serve", "m"}, 0},
		"value cut off":  {nil, []string{"--max-num-seqs"}, 0},
		"another's flag": {nil, []string{"--max-num-seqs-per-x=9"}, 0},
	} {
		got, ok := MaxNumSeqs(corev1.Container{Command: c.command, Args: c.args})
		if ok != (c.want > 0) || ok && got != c.want {
			t.Errorf("%s: %d %v, want %d", name, got, ok, c.want)
		}
	}
}

func objects() []runtime.Object {
	yes := true
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
	}
	three := int32(3)
	engine := corev1.Container{Name: "vllm", Image: "vllm/vllm-openai:v0.11.0", Args: []string{"serve", "llama-70b", "--max-num-seqs=256"},
		Ports:     []corev1.ContainerPort{{ContainerPort: 8000}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}}}
	pod := func(name string) *corev1.Pod {
		start := ago(30 * time.Minute)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "llm", UID: "u-1", Labels: map[string]string{"app": "vllm"},
			OwnerReferences: owner("ReplicaSet", "vllm-llama-7d9f8b6c5")},
			Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{engine}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", StartTime: &start,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "vllm", RestartCount: 2,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled",
						ExitCode: 137, FinishedAt: ago(5 * time.Minute)}}}}}}
	}
	lws := pod("ring-0-1")
	lws.OwnerReferences, lws.Labels = owner("StatefulSet", "ring-0"), map[string]string{lwsName: "ring"}
	web := pod("web-1")
	web.OwnerReferences, web.Spec.Containers = nil, []corev1.Container{{Name: "nginx", Image: "nginx"}}
	return []runtime.Object{pod("vllm-llama-7d9f8b6c5-aaaa0"), lws, web,
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "vllm-llama-7d9f8b6c5", Namespace: "llm",
			OwnerReferences: owner("Deployment", "vllm-llama"), CreationTimestamp: ago(10 * time.Minute)}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "vllm-llama-5c4d", Namespace: "llm", OwnerReferences: owner("Deployment",
			"vllm-llama"), CreationTimestamp: ago(10 * time.Hour)}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "vllm-llama", Namespace: "llm"},
			Spec: appsv1.DeploymentSpec{Replicas: &three,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{engine}}}},
			Status: appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 2}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "pdb", Namespace: "llm"},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "vllm"}}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: "GpuUnhealthy", Status: corev1.ConditionTrue}}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-z"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e1", Namespace: "llm"}, Type: "Warning", Reason: "BackOff", Count: 7,
			LastTimestamp: ago(time.Minute), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "llm",
				Name: "vllm-llama-7d9f8b6c5-aaaa0"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e2", Namespace: "llm"}, Type: "Warning", Reason: "Old", Count: 7,
			LastTimestamp: ago(3 * time.Hour), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "llm",
				Name: "vllm-llama-7d9f8b6c5-aaaa0"}},
	}
}

func query(t *testing.T) enrich.Query {
	builtin, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	return enrich.Query{Cluster: "default", Scope: state.Scope{Namespace: "llm"}, Now: now, Onset: now, Signals: builtin}
}

// An unschedulable pod has no age and no waiting containers; only its condition is known. Once it
// is scheduled, the condition changes, although its old events remain.
func TestUnschedulablePodIsListed(t *testing.T) {
	for word, want := range map[corev1.ConditionStatus]float64{corev1.ConditionFalse: 1, corev1.ConditionTrue: 0} {
		all := objects()
		p := all[0].(*corev1.Pod)
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: word, Reason: "Unschedulable"}}}
		found := false
		for _, s := range New(fake.NewClientset(all...), nil).Read(t.Context(), query(t)).Samples {
			if s.Entity.Pod != p.Name {
				continue
			}
			if found = found || s.Signal == "pod_unscheduled"; s.Signal == "pod_unscheduled" && s.Value != want || s.Signal == "pod_age" {
				t.Errorf("scheduled: %s, but %s is %g", word, s.Signal, s.Value)
			}
		}
		if !found {
			t.Errorf("scheduled: %s, without a sample", word)
		}
	}
}

// samplesOf reads the samples of a pod after a change to it.
func samplesOf(t *testing.T, change func(p *corev1.Pod)) map[string]state.Sample {
	t.Helper()
	all := objects()
	p := all[0].(*corev1.Pod)
	change(p)
	got := map[string]state.Sample{}
	for _, s := range New(fake.NewClientset(all...), nil).Read(t.Context(), query(t)).Samples {
		if s.Entity.Pod == p.Name {
			got[s.Signal] = s
		}
	}
	return got
}

// A sidecar or an init container that ended says nothing about an engine that runs. Until the
// engine starts, its init containers do.
func TestOnlyTheEnginesEndCounts(t *testing.T) {
	ended := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: ago(5 * time.Minute)}}}
	}
	runs := corev1.ContainerStatus{Name: "vllm", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waits := corev1.ContainerStatus{Name: "vllm", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	for name, c := range map[string]struct {
		change func(s *corev1.PodStatus)
		want   bool
	}{
		"the engine": {func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{ended("vllm")} }, true},
		"a sidecar": {func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{ended("istio-proxy"), runs}
		}, false},
		"an init container, long ago": {func(s *corev1.PodStatus) {
			s.InitContainerStatuses, s.ContainerStatuses = []corev1.ContainerStatus{ended("download")}, []corev1.ContainerStatus{runs}
		}, false},
		"an init container, now": {func(s *corev1.PodStatus) {
			s.InitContainerStatuses, s.ContainerStatuses = []corev1.ContainerStatus{ended("download")}, []corev1.ContainerStatus{waits}
		}, true},
	} {
		got := samplesOf(t, func(p *corev1.Pod) { c.change(&p.Status) })
		if _, ended := got["pod_last_terminated"]; ended != c.want || (got["pod_restarts"].Value > 0) != c.want {
			t.Errorf("%s: an end is read %t, %v restarts", name, ended, got["pod_restarts"].Value)
		}
	}
}

// Evicted pods stay on record. They are no workers, unless an alert names one.
func TestFailedPodsAreNoWorkers(t *testing.T) {
	evict := func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }
	if got := samplesOf(t, evict); len(got) > 0 {
		t.Errorf("an evicted pod is a worker: %v", got)
	}
	all := objects()
	evict(all[0].(*corev1.Pod))
	q := query(t)
	q.Scope.Pods = []string{"vllm-llama-7d9f8b6c5-aaaa0"}
	if !slices.ContainsFunc(New(fake.NewClientset(all...), nil).Read(t.Context(), q).Workers,
		func(w state.Worker) bool { return w.Pod == q.Scope.Pods[0] }) {
		t.Error("the pod that an alert names is not read")
	}
}

// Conditions such as AcceleratedHardwareReady are good if they are true, unlike GpuUnhealthy.
func TestReadyConditionsAreGood(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: false, corev1.ConditionFalse: true} {
		all := objects()
		for _, o := range all {
			if n, ok := o.(*corev1.Node); ok && n.Name == "node-a" {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: "AcceleratedHardwareReady", Status: status}}
			}
		}
		bad := slices.ContainsFunc(New(fake.NewClientset(all...), nil).Read(t.Context(), query(t)).Samples,
			func(s state.Sample) bool { return s.Signal == "node_bad_condition" })
		if bad != want {
			t.Errorf("AcceleratedHardwareReady=%s is bad: %t", status, bad)
		}
	}
}

// Each engine of a vLLM container with data parallelism has the limit for itself.
func TestConcurrencyCapCountsEveryEngine(t *testing.T) {
	for args, want := range map[string]float64{
		"":                       256,
		"--data-parallel-size=8": 2048,
		"-dp 4":                  1024,
		"--data-parallel-size 8 --data-parallel-rank 3":        256,
		"--data-parallel-size 16 --data-parallel-size-local 8": 2048,
	} {
		got := samplesOf(t, func(p *corev1.Pod) {
			p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, strings.Fields(args)...)
		})
		if got["max_num_seqs"].Value != want {
			t.Errorf("%s: a cap of %v, want %v", args, got["max_num_seqs"].Value, want)
		}
	}
}

func TestReadReportsWorkerEvents(t *testing.T) {
	api := fake.NewClientset(objects()...)
	r := New(api, nil).Read(t.Context(), query(t))
	if len(r.Workers) != 2 {
		t.Fatalf("workers %+v", r.Workers)
	}
	pools := map[string]state.Worker{}
	for _, w := range r.Workers {
		pools[w.PoolKind+"/"+w.Pool] = w
	}
	if w := pools["Deployment/vllm-llama"]; w.Node != "node-a" || w.Model != "llama-70b" || w.Engine != "vllm" ||
		w.Instance != "10.0.0.1:8000" || !w.Ready {
		t.Errorf("worker %+v", w)
	}
	if _, ok := pools["LeaderWorkerSet/ring"]; !ok {
		t.Errorf("the group's name is not the pool: %+v", pools)
	}
	got := map[string]state.Sample{}
	for _, s := range r.Samples {
		if s.Entity.Pool != "ring" {
			got[s.Signal] = s
		}
	}
	for id, want := range map[string]state.Sample{
		"pod_restarts": {Value: 2}, "pod_last_terminated": {Value: 137, Text: "OOMKilled"}, "pod_waiting_reason": {Value: 1,
			Text: "CrashLoopBackOff"},
		"pod_ready": {Value: 1}, "pod_age": {Value: 1800}, "max_num_seqs": {Value: 256}, "container_memory_limit": {Value: 64 << 30},
		"replicas_desired": {Value: 3},
		"replicas_ready":   {Value: 2}, "rollout_in_progress": {Value: 1}, "rollout_age": {Value: 600}, "rollout_image": {Value: 1,
			Text: "vllm/vllm-openai:v0.11.0"},
		"pod_image":           {Value: 1, Text: "vllm/vllm-openai:v0.11.0"},
		"disruptions_allowed": {Value: 1}, "node_ready": {Value: 1}, "node_unschedulable": {Value: 1}, "node_bad_condition": {Value: 1,
			Text: "GpuUnhealthy=True"}, "kube_event": {Value: 7, Text: "BackOff"},
	} {
		if s, ok := got[id]; !ok || s.Value != want.Value || s.Text != want.Text {
			t.Errorf("%s: %v %+v", id, ok, s)
		}
	}
	for _, a := range api.Actions() {
		if v := a.GetVerb(); v != "list" && v != "get" {
			t.Errorf("%s of %s: only reads are allowed", v, a.GetResource().Resource)
		}
	}
}

func TestForbiddenReadsAreMissing(t *testing.T) {
	api := fake.NewClientset(objects()...)
	api.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New(`nodes is forbidden: User "paramedic" cannot list resource "nodes"`)
	})
	r := New(api, nil).Read(t.Context(), query(t))
	if why := r.Failed["node_ready"]; !strings.Contains(why, "forbidden") {
		t.Errorf("node_ready failed with %q", why)
	}
	if len(r.Workers) != 2 {
		t.Errorf("workers %+v", r.Workers)
	}
}

func TestPingReportsForbiddenReads(t *testing.T) {
	api := fake.NewClientset(objects()...)
	if err := New(api, nil).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	api.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`User "paramedic" cannot list resource "pods" in API group "" at the cluster scope`))
	})
	const want = `Kubernetes, listing pods: pods is forbidden: User "paramedic" cannot list resource "pods" in API group "" at the cluster scope`
	if err := New(api, nil).Ping(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
