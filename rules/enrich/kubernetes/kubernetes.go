// Package kubernetes reads live data from a cluster's API server: the pool and node of each pod,
// and its recent events.
//
// It only reads (get and list, never watch or write). A gathering makes a bounded number of calls,
// each with bounded answers, for a cluster of any size. If only Ray knows which pods run one
// engine, the package also asks the head of the RayCluster. Of a container's log and termination
// message, only the class of the last error leaves the package. Data that it may not read, or that
// does not arrive in time, are missing evidence with the reason; they never mean "healthy".
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"paramedic/rules/enrich"
	"paramedic/state"
)

const (
	pageSize = 500
	maxPages = 4
)

// Connect returns a client for the cluster that a kubeconfig names, or for the cluster of the
// process if both parameters are empty. It makes no call.
func Connect(kubeconfig, kubecontext string) (*Client, error) {
	cfg, err := restConfig(kubeconfig, kubecontext)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = "paramedic-read", 50, 100
	client, err := newGroups(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	custom, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client of custom resources: %w", err)
	}
	return New(client, custom), nil
}

func restConfig(kubeconfig, kubecontext string) (*rest.Config, error) {
	if kubeconfig == "" && kubecontext == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig is set and this is not a pod: %w", err)
		}
		return cfg, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return cfg, nil
}

// A Client reads one cluster. It is safe for concurrent use.
type Client struct {
	api    API
	custom *customReader
	ray    *rayReader
}

// New returns a client. If custom is nil, owners that are custom resources are recognized by labels
// only.
func New(api API, custom dynamic.Interface) *Client {
	return &Client{api: api, custom: newCustomReader(custom), ray: newRayReader()}
}

// Ping lists one pod. Listing pods is essential, because without them there are no workers.
func (c *Client) Ping(ctx context.Context) error {
	if _, err := c.api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return errors.New(enrich.Explain("Kubernetes, listing pods", err))
	}
	return nil
}

// A snapshot holds the objects that one gathering read.
type snapshot struct {
	pods         []corev1.Pod
	replicaSets  []appsv1.ReplicaSet
	deployments  []appsv1.Deployment
	statefulSets []appsv1.StatefulSet
	budgets      []policyv1.PodDisruptionBudget
	nodes        []corev1.Node
	services     []corev1.Service
	revisions    []appsv1.ControllerRevision
	custom       map[string][]unstructured.Unstructured
	events       []corev1.Event
}

// The signals that each kind of object gives. If reading it fails, these are missing.
var (
	podSignals = []string{"pod_node", "pod_restarts", "pod_last_terminated", "pod_exit_code", "pod_last_error",
		"pod_waiting_reason", "pod_unscheduled", "pod_ready", "pod_age", "pod_image", "max_num_seqs",
		"container_memory_limit"}
	poolSignals   = []string{"replicas_desired", "replicas_ready", "rollout_in_progress", "rollout_image"}
	ageSignals    = []string{"rollout_age"}
	budgetSignals = []string{"disruptions_allowed"}
	nodeSignals   = []string{"node_ready", "node_unschedulable", "node_bad_condition"}
	eventSignals  = []string{"kube_event"}
)

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	snap := c.fetch(ctx, q, &out)
	wanted := map[string]bool{}
	for _, s := range q.Signals {
		wanted[s.ID] = true
	}
	b := newBuilder(q, snap, wanted)
	placements, notes := c.ray.read(ctx, b.heads(), q.Now)
	out.Notes = append(append(out.Notes, notes...), b.place(placements)...)
	b.workers()
	b.podSamples()
	b.poolSamples()
	b.nodeSamples()
	b.eventSamples()
	c.lastErrors(ctx, b, &out)
	out.Workers, out.Samples = b.found, b.samples
	return out
}

// fetch lists all kinds in parallel.
func (c *Client) fetch(ctx context.Context, q enrich.Query, out *enrich.Reading) *snapshot {
	var s snapshot
	namespace := q.Scope.Namespace
	var mu sync.Mutex
	var wg sync.WaitGroup
	read := func(kind string, ids []string, list func(metav1.ListOptions) (string, error)) {
		wg.Go(func() {
			opts := metav1.ListOptions{Limit: pageSize}
			for page := 0; ; page++ {
				next, err := list(opts)
				if err == nil && next != "" && page+1 < maxPages {
					opts.Continue = next
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil && len(ids) == 0 {
					out.Notes = append(out.Notes, state.Missing{Signal: "topology",
						Reason: enrich.Explain("Kubernetes, listing "+kind, err)})
				}
				if err != nil {
					for _, id := range ids {
						out.Fail(id, enrich.Explain("Kubernetes, listing "+kind, err))
					}
				} else if next != "" {
					out.Notes = append(out.Notes, state.Missing{Signal: "kubernetes",
						Reason: fmt.Sprintf("only the first %d %s were read", maxPages*pageSize, kind)})
				}
				return
			}
		})
	}
	apps, core := c.api.AppsV1(), c.api.CoreV1()
	read("pods", podSignals, func(o metav1.ListOptions) (string, error) {
		l, err := core.Pods(namespace).List(ctx, o)
		return keep(&s.pods, l, err, func() []corev1.Pod { return l.Items })
	})
	read("replicasets", ageSignals, func(o metav1.ListOptions) (string, error) {
		l, err := apps.ReplicaSets(namespace).List(ctx, o)
		return keep(&s.replicaSets, l, err, func() []appsv1.ReplicaSet { return l.Items })
	})
	read("deployments", poolSignals, func(o metav1.ListOptions) (string, error) {
		l, err := apps.Deployments(namespace).List(ctx, o)
		return keep(&s.deployments, l, err, func() []appsv1.Deployment { return l.Items })
	})
	read("statefulsets", poolSignals, func(o metav1.ListOptions) (string, error) {
		l, err := apps.StatefulSets(namespace).List(ctx, o)
		return keep(&s.statefulSets, l, err, func() []appsv1.StatefulSet { return l.Items })
	})
	read("poddisruptionbudgets", budgetSignals, func(o metav1.ListOptions) (string, error) {
		l, err := c.api.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, o)
		return keep(&s.budgets, l, err, func() []policyv1.PodDisruptionBudget { return l.Items })
	})
	read("nodes", nodeSignals, func(o metav1.ListOptions) (string, error) {
		l, err := core.Nodes().List(ctx, o)
		return keep(&s.nodes, l, err, func() []corev1.Node { return l.Items })
	})
	read("events", eventSignals, func(o metav1.ListOptions) (string, error) {
		o.FieldSelector = "type=Warning"
		l, err := core.Events(namespace).List(ctx, o)
		return keep(&s.events, l, err, func() []corev1.Event { return l.Items })
	})
	read("services", nil, func(o metav1.ListOptions) (string, error) {
		l, err := core.Services(namespace).List(ctx, o)
		return keep(&s.services, l, err, func() []corev1.Service { return l.Items })
	})
	read("controllerrevisions", ageSignals, func(o metav1.ListOptions) (string, error) {
		l, err := apps.ControllerRevisions(namespace).List(ctx, o)
		return keep(&s.revisions, l, err, func() []appsv1.ControllerRevision { return l.Items })
	})
	wg.Go(func() {
		custom, notes := c.custom.list(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		s.custom, out.Notes = custom, append(out.Notes, notes...)
	})
	wg.Wait()
	return &s
}

// keep appends one page and returns the token of the next. Each list has its own goroutine and its
// own slice.
func keep[T any](into *[]T, list metav1.ListInterface, err error, items func() []T) (string, error) {
	if err != nil {
		return "", err
	}
	*into = append(*into, items()...)
	return list.GetContinue(), nil
}
