package kube

import (
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"paramedic/remediate/cluster"
)

func deployment(d *appsv1.Deployment) cluster.Workload {
	w := workload("Deployment", &d.ObjectMeta, d.Spec.Selector, d.Spec.Template.Spec.Containers)
	w.Replicas = replicas(d.Spec.Replicas)
	st := d.Status
	w.Observed, w.Current, w.Updated = st.ObservedGeneration, int(st.Replicas), int(st.UpdatedReplicas)
	w.Ready, w.Available, w.Paused = int(st.ReadyReplicas), int(st.AvailableReplicas), d.Spec.Paused
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		w.Recreate = true
		return w
	}
	quarter := intstr.FromString("25%")
	unavailable, surge := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxUnavailable != nil {
			unavailable = r.MaxUnavailable
		}
		if r.MaxSurge != nil {
			surge = r.MaxSurge
		}
	}
	w.MaxUnavailable = scaled(unavailable, w.Replicas, false)
	w.MaxSurge = scaled(surge, w.Replicas, true)
	return w
}

// scaled returns the absolute number. A share that cannot be read counts as all.
func scaled(v *intstr.IntOrString, of int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(v, of, up)
	if err != nil {
		return of
	}
	return n
}

func statefulSet(s *appsv1.StatefulSet) cluster.Workload {
	w := workload("StatefulSet", &s.ObjectMeta, s.Spec.Selector, s.Spec.Template.Spec.Containers)
	w.Replicas = replicas(s.Spec.Replicas)
	st := s.Status
	w.Observed, w.Current, w.Updated = st.ObservedGeneration, int(st.Replicas), int(st.UpdatedReplicas)
	if st.CurrentRevision == st.UpdateRevision {
		w.Updated = int(st.Replicas) // the controller leaves updatedReplicas at zero once a rollout is complete
	}
	w.Ready, w.Available, w.MaxUnavailable = int(st.ReadyReplicas), int(st.AvailableReplicas), 1
	return w
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func workload(kind string, m *metav1.ObjectMeta, sel *metav1.LabelSelector,
	containers []corev1.Container) cluster.Workload {
	w := cluster.Workload{
		Ref: cluster.Ref{Namespace: m.Namespace, Kind: kind, Name: m.Name}, UID: string(m.UID),
		Generation: m.Generation,
		Created:    m.CreationTimestamp.UTC(), Labels: m.Labels, Annotations: m.Annotations, Managers: managers(m.ManagedFields),
	}
	for _, o := range m.OwnerReferences {
		controller := o.Controller != nil && *o.Controller
		w.Owners = append(w.Owners, cluster.Owner{Kind: o.Kind, Name: o.Name, Controller: controller})
	}
	if sel != nil {
		w.Selector, w.ComplexSelector = sel.MatchLabels, len(sel.MatchExpressions) > 0
	}
	for _, c := range containers {
		w.Containers = append(w.Containers,
			cluster.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args})
	}
	return w
}

func managers(entries []metav1.ManagedFieldsEntry) []cluster.Manager {
	var out []cluster.Manager
	for _, e := range entries {
		m := cluster.Manager{Name: e.Manager, Status: e.Subresource == "status"}
		if e.Time != nil {
			m.At = e.Time.UTC()
		}
		if e.FieldsV1 != nil {
			var tree map[string]any
			if json.Unmarshal(e.FieldsV1.GetRawBytes(), &tree) == nil {
				flatten("", tree, &m.Owns)
				slices.Sort(m.Owns)
			}
		}
		out = append(out, m)
	}
	return out
}

// flatten collects the paths of a FieldsV1 tree. For example,
// {"f:spec":{"f:containers":{"k:{\"name\":\"vllm\"}":{"f:args":{}}}}} has the path
// spec.containers[vllm].args.
func flatten(prefix string, tree map[string]any, out *[]string) {
	leaf := true
	for key, below := range tree {
		var path string
		switch {
		case strings.HasPrefix(key, "f:"):
			path = strings.TrimPrefix(prefix+"."+key[2:], ".")
		case strings.HasPrefix(key, "k:"):
			var k map[string]any
			name := key[2:]
			if json.Unmarshal([]byte(name), &k) == nil {
				if n, ok := k["name"].(string); ok {
					name = n
				}
			}
			path = prefix + "[" + name + "]"
		default:
			continue // "." is the item itself, "v:" a set's value
		}
		leaf = false
		if sub, ok := below.(map[string]any); ok {
			flatten(path, sub, out)
		}
	}
	if leaf && prefix != "" {
		*out = append(*out, prefix)
	}
}

func pod(p *corev1.Pod) cluster.Pod {
	out := cluster.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Labels: p.Labels, Annotations: p.Annotations,
		Terminating: p.DeletionTimestamp != nil, Node: p.Spec.NodeName, Created: p.CreationTimestamp.UTC(),
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	if o := metav1.GetControllerOf(p); o != nil {
		out.Owner = cluster.Owner{Kind: o.Kind, Name: o.Name, Controller: true}
	}
	return out
}

func namespace(ns *corev1.Namespace, services []corev1.Service, budgets []policyv1.PodDisruptionBudget,
	scalers []autoscalingv2.HorizontalPodAutoscaler) cluster.Namespace {
	out := cluster.Namespace{Name: ns.Name, Labels: ns.Labels}
	for _, s := range services {
		out.Services = append(out.Services, cluster.Selection{Name: s.Name, Selector: s.Spec.Selector})
	}
	for _, b := range budgets {
		pdb := cluster.Budget{Name: b.Name, Allowed: int(b.Status.DisruptionsAllowed),
			ComplexSelector: b.Spec.Selector == nil}
		if b.Spec.Selector != nil {
			sel := b.Spec.Selector
			pdb.Selector = sel.MatchLabels
			pdb.ComplexSelector = len(sel.MatchExpressions) > 0 || len(sel.MatchLabels) == 0
		}
		if b.Status.ObservedGeneration < b.Generation {
			pdb.Allowed = 0 // the status is stale; the API server refuses evictions too
		}
		out.Budgets = append(out.Budgets, pdb)
	}
	for i := range scalers {
		out.Autoscalers = append(out.Autoscalers, autoscaler(&scalers[i]))
	}
	return out
}

// autoscaler returns how many replicas the autoscaler wants. Known is false if it could not set
// them when it last ran, if its spec changed after that, or if it never had metrics.
func autoscaler(h *autoscalingv2.HorizontalPodAutoscaler) cluster.Autoscaler {
	t, st := h.Spec.ScaleTargetRef, h.Status
	out := cluster.Autoscaler{Kind: "HorizontalPodAutoscaler", Name: h.Name,
		Target:  cluster.Ref{Namespace: h.Namespace, Kind: t.Kind, Name: t.Name},
		Current: int(st.CurrentReplicas), Desired: int(st.DesiredReplicas)}
	for _, c := range st.Conditions {
		if c.Type == autoscalingv2.AbleToScale {
			out.Known = c.Status == corev1.ConditionTrue
		}
	}
	stale := st.ObservedGeneration != nil && *st.ObservedGeneration < h.Generation
	unmeasured := out.Desired == 0 && out.Current > 0 // it never had its metrics
	out.Known = out.Known && !stale && !unmeasured
	return out
}
