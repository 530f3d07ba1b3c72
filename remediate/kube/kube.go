// Package kube is the only package of Paramedic that writes to a Kubernetes cluster. It implements
// cluster.Cluster.
//
// Every read is uncached. Writes are JSON Patches of Deployments and pods, and evictions with a UID
// precondition. No call deletes a pod, and none touches a Secret or a node. The transport logs each
// write request with its outcome, so that a write is on record even if its caller did not record
// it. This package does not retry writes, because the runner first reads whether they happened.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"paramedic/remediate/cluster"
)

// Options hold the optional settings.
type Options struct {
	Logger  *slog.Logger  // of the audit of writes; nil: silent
	Timeout time.Duration // of one request; default 15s
	// Account is the service account to act as, as namespace/name. Empty: the one that connects.
	Account string
	// MayWrite is called right before each write, with the context of its work. An error refuses
	// the write. Nil: every write goes on.
	MayWrite func(context.Context) error
}

// A Cluster reads and writes one Kubernetes cluster.
type Cluster struct {
	client  *groups
	timeout time.Duration
}

var _ cluster.Cluster = (*Cluster)(nil)

// New returns a client of a cluster. It copies the configuration and sends no request yet.
func New(cfg *rest.Config, o Options) (*Cluster, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	own := rest.CopyConfig(cfg)
	own.UserAgent = rest.DefaultKubernetesUserAgent() + " " + cluster.FieldManager
	if namespace, name, ok := strings.Cut(o.Account, "/"); ok {
		own.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + name
	}
	own.Wrap(auditing(o.Logger, o.MayWrite))
	client, err := newGroups(own)
	if err != nil {
		return nil, fmt.Errorf("connecting to Kubernetes: %w", err)
	}
	return &Cluster{client: client, timeout: o.Timeout}, nil
}

// Workload reads a Deployment or StatefulSet.
func (c *Cluster) Workload(ctx context.Context, ref cluster.Ref) (cluster.Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	switch ref.Kind {
	case "Deployment":
		d, err := c.client.apps.Deployments(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return cluster.Workload{}, explain(err)
		}
		return deployment(d), nil
	case "StatefulSet":
		s, err := c.client.apps.StatefulSets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return cluster.Workload{}, explain(err)
		}
		return statefulSet(s), nil
	}
	return cluster.Workload{}, fmt.Errorf("first aid treats Deployments and StatefulSets, not a %s: %w", ref.Kind,
		cluster.ErrRefused)
}

// Pod reads a pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (cluster.Pod, error) {
	if name == "" {
		return cluster.Pod{}, errors.New("a pod needs a name")
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	p, err := c.client.core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return cluster.Pod{}, explain(err)
	}
	return pod(p), nil
}

// Pods lists the pods that the workload controls: those that its selector matches, and whose
// controller is the workload or one of its ReplicaSets.
func (c *Cluster) Pods(ctx context.Context, w cluster.Workload) ([]cluster.Pod, error) {
	if len(w.Selector) == 0 {
		return nil, fmt.Errorf("the selector of %s has no matchLabels: %w", w.Name, cluster.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	match := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(w.Selector).String()}
	controllers := map[types.UID]bool{types.UID(w.UID): true}
	if w.Kind == "Deployment" {
		sets, err := c.client.apps.ReplicaSets(w.Namespace).List(ctx, match)
		if err != nil {
			return nil, explain(err)
		}
		for i := range sets.Items {
			if o := metav1.GetControllerOf(&sets.Items[i]); o != nil && string(o.UID) == w.UID {
				controllers[sets.Items[i].UID] = true
			}
		}
	}
	list, err := c.client.core.Pods(w.Namespace).List(ctx, match)
	if err != nil {
		return nil, explain(err)
	}
	var out []cluster.Pod
	for i := range list.Items {
		p := &list.Items[i]
		o := metav1.GetControllerOf(p)
		if o == nil || !controllers[o.UID] || p.Status.Phase == corev1.PodSucceeded ||
			p.Status.Phase == corev1.PodFailed {
			continue
		}
		out = append(out, pod(p))
	}
	return out, nil
}

// Namespace reads a namespace's labels, Services, disruption budgets and autoscalers.
func (c *Cluster) Namespace(ctx context.Context, name string) (cluster.Namespace, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ns, err := c.client.core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return cluster.Namespace{}, explain(err)
	}
	services, err := c.client.core.Services(name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return cluster.Namespace{}, explain(err)
	}
	budgets, err := c.client.policy.PodDisruptionBudgets(name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return cluster.Namespace{}, explain(err)
	}
	scalers, err := c.client.autoscaling.HorizontalPodAutoscalers(name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return cluster.Namespace{}, explain(err)
	}
	return namespace(ns, services.Items, budgets.Items, scalers.Items), nil
}

// PatchWorkload applies a JSON Patch to a Deployment.
func (c *Cluster) PatchWorkload(
	ctx context.Context, ref cluster.Ref, patch []byte, dryRun bool,
) (cluster.Workload, error) {
	if ref.Kind != "Deployment" {
		return cluster.Workload{}, fmt.Errorf("first aid patches only Deployments, not a %s: %w", ref.Kind,
			cluster.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(withOp(ctx, patch), c.timeout)
	defer cancel()
	var d appsv1.Deployment
	request := patching(c.client.apps.RESTClient(), "deployments", ref.Namespace, ref.Name, patch, dryRun)
	err := request.Do(ctx).Into(&d)
	if err != nil {
		return cluster.Workload{}, explain(err)
	}
	return deployment(&d), nil
}

// PatchPod applies a JSON Patch to a pod.
func (c *Cluster) PatchPod(ctx context.Context, ns, name string, patch []byte, dryRun bool) (cluster.Pod, error) {
	ctx, cancel := context.WithTimeout(withOp(ctx, patch), c.timeout)
	defer cancel()
	var p corev1.Pod
	err := patching(c.client.core.RESTClient(), "pods", ns, name, patch, dryRun).Do(ctx).Into(&p)
	if err != nil {
		return cluster.Pod{}, explain(err)
	}
	return pod(&p), nil
}

// patching builds the request of a JSON Patch.
func patching(client rest.Interface, resource, ns, name string, patch []byte, dryRun bool) *rest.Request {
	opts := &metav1.PatchOptions{FieldManager: cluster.FieldManager}
	if dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return client.Patch(types.JSONPatchType).Namespace(ns).Resource(resource).Name(name).
		VersionedParams(opts, scheme.ParameterCodec).MaxRetries(0).Body(patch)
}

// Evict evicts the pod if it has this UID.
func (c *Cluster) Evict(ctx context.Context, ns, name, uid string, dryRun bool) error {
	if uid == "" {
		return fmt.Errorf("an eviction needs the pod's UID: %w", cluster.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	id := types.UID(uid)
	ev := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: name, Namespace: ns},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}},
	}
	opts := &metav1.CreateOptions{}
	if dryRun {
		opts.DryRun, ev.DeleteOptions.DryRun = []string{metav1.DryRunAll}, []string{metav1.DryRunAll}
	}
	err := c.client.core.RESTClient().Post().Namespace(ns).Resource("pods").Name(name).SubResource("eviction").
		VersionedParams(opts, scheme.ParameterCodec).MaxRetries(0).Body(ev).Do(ctx).Error()
	return explain(err)
}

type opKey struct{}

// withOp adds the op-id of a patch to the context, for the audit.
func withOp(ctx context.Context, patch []byte) context.Context {
	var ops []struct {
		Op, Path string
		Value    any
	}
	id := ""
	if json.Unmarshal(patch, &ops) == nil {
		for _, o := range ops {
			switch v := o.Value.(type) {
			case string:
				if o.Op != "test" && o.Path == "/metadata/annotations/paramedic.dev~1op-id" {
					id = v
				}
			case map[string]any:
				if s, ok := v[cluster.OpIDAnnotation].(string); ok {
					id = s
				}
			}
		}
	}
	return context.WithValue(ctx, opKey{}, id)
}
