package kube

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"paramedic/remediate/cluster"
)

// A rollout takes away a share of the replicas, the default share, or all.
func TestRolloutAsTheStrategySays(t *testing.T) {
	of := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	for name, c := range map[string]struct {
		strategy           appsv1.DeploymentStrategy
		unavailable, surge int
		recreate           bool
	}{
		"nothing said":     {appsv1.DeploymentStrategy{}, 2, 3, false},
		"only unavailable": {appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: of("0")}}, 0, 3, false},
		"only surge":       {appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: of("50%")}}, 2, 5, false},
		"both":             {appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: of("4"), MaxSurge: of("0")}}, 4, 0, false},
		"not a share":      {appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: of("some"), MaxSurge: of("0")}}, 10, 0, false},
		"all at once":      {appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, 0, 0, true},
	} {
		ten := int32(10)
		w := deployment(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &ten, Strategy: c.strategy}})
		if w.MaxUnavailable != c.unavailable || w.MaxSurge != c.surge || w.Recreate != c.recreate {
			t.Errorf("%s: %d unavailable, %d more, at once %t", name, w.MaxUnavailable, w.MaxSurge, w.Recreate)
		}
	}
	if w := deployment(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}}); w.Replicas != 1 || !w.Paused {
		t.Errorf("%+v", w)
	}
}

func TestStatefulSetRolloutIsSeen(t *testing.T) {
	three := int32(3)
	set := func(current, update string, updated int32) cluster.Workload {
		return statefulSet(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three},
			Status: appsv1.StatefulSetStatus{Replicas: 3, UpdatedReplicas: updated, CurrentRevision: current, UpdateRevision: update}})
	}
	if w := set("a", "b", 1); !w.RollingOut() || w.Updated != 1 || w.MaxUnavailable != 1 {
		t.Errorf("%+v", w)
	}
	if w := set("b", "b", 0); w.RollingOut() || w.Updated != 3 {
		t.Errorf("%+v", w)
	}
}

func TestSelectorsThatAreNotPlainAreOdd(t *testing.T) {
	app := map[string]string{"app": "vllm"}
	more := []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
	for name, c := range map[string]struct {
		sel              *metav1.LabelSelector
		workload, budget bool
		selects, covers  int
	}{
		"plain":         {&metav1.LabelSelector{MatchLabels: app}, false, false, 1, 1},
		"with more":     {&metav1.LabelSelector{MatchLabels: app, MatchExpressions: more}, true, true, 1, 1},
		"only more":     {&metav1.LabelSelector{MatchExpressions: more}, true, true, 0, 0},
		"none":          {nil, false, true, 0, 0},
		"of everything": {&metav1.LabelSelector{}, false, true, 0, 0},
	} {
		w := deployment(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: c.sel}})
		b := namespace(&corev1.Namespace{}, nil, []policyv1.PodDisruptionBudget{{Spec: policyv1.PodDisruptionBudgetSpec{Selector: c.sel}}},
			nil).Budgets[0]
		if w.ComplexSelector != c.workload || b.ComplexSelector != c.budget || len(w.Selector) != c.selects || len(b.Selector) != c.covers {
			t.Errorf("%s: workload %t %v, budget %t %v", name, w.ComplexSelector, w.Selector, b.ComplexSelector, b.Selector)
		}
	}
}

// A status that describes an older budget allows no disruption.
func TestStaleBudgetAllowsNothing(t *testing.T) {
	for _, c := range []struct {
		observed, generation int64
		want                 int
	}{{1, 2, 0}, {2, 2, 3}, {3, 2, 3}} {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: c.generation},
			Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: c.observed, DisruptionsAllowed: 3}}
		if got := namespace(&corev1.Namespace{}, nil, []policyv1.PodDisruptionBudget{b}, nil).Budgets[0].Allowed; got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// An autoscaler is known only if its status describes its present spec, and its target can be
// scaled.
func TestAutoscalerIsKnownByItsStatus(t *testing.T) {
	type hpa = autoscalingv2.HorizontalPodAutoscaler
	able := func(st corev1.ConditionStatus) func(*hpa) {
		return func(h *hpa) { h.Status.Conditions[1].Status = st }
	}
	observed := func(n int64) func(*hpa) { return func(h *hpa) { h.Status.ObservedGeneration = &n } }
	for name, c := range map[string]struct {
		set  func(*hpa)
		want bool
	}{
		"reported":                    {func(*hpa) {}, true},
		"of its generation":           {observed(2), true},
		"of an older generation":      {observed(1), false},
		"not reported yet":            {func(h *hpa) { h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{} }, false},
		"another condition":           {func(h *hpa) { h.Status.Conditions = h.Status.Conditions[:1] }, false},
		"cannot read its target":      {able(corev1.ConditionFalse), false},
		"does not know":               {able(corev1.ConditionUnknown), false},
		"never had its metrics":       {func(h *hpa) { h.Status.DesiredReplicas = 0 }, false},
		"rests, for none are to run":  {func(h *hpa) { h.Status.CurrentReplicas, h.Status.DesiredReplicas = 0, 0 }, true},
		"is about to add a first one": {func(h *hpa) { h.Status.CurrentReplicas = 0 }, true},
	} {
		h := hpa{ObjectMeta: metav1.ObjectMeta{Namespace: "llm", Name: "llama", Generation: 2},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment",
				Name: "vllm"}},
			Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 4, DesiredReplicas: 6,
				Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
					{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue}, {Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue}}}}
		c.set(&h)
		got := namespace(&corev1.Namespace{}, nil, nil, []hpa{h}).Autoscalers[0]
		want := cluster.Autoscaler{Kind: "HorizontalPodAutoscaler", Name: "llama",
			Target: cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "vllm"},
			Known:  c.want, Current: int(h.Status.CurrentReplicas), Desired: int(h.Status.DesiredReplicas)}
		if got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPodIsReadyOnlyByItsCondition(t *testing.T) {
	cond := func(typ corev1.PodConditionType, st corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: typ, Status: st}
	}
	for name, c := range map[string]struct {
		conditions []corev1.PodCondition
		want       bool
	}{
		"none":      {nil, false},
		"ready":     {[]corev1.PodCondition{cond(corev1.PodReady, corev1.ConditionTrue), cond(corev1.PodScheduled, corev1.ConditionFalse)}, true},
		"not ready": {[]corev1.PodCondition{cond(corev1.PodReady, corev1.ConditionFalse), cond(corev1.PodScheduled, corev1.ConditionTrue)}, false},
		"unknown":   {[]corev1.PodCondition{cond(corev1.PodReady, corev1.ConditionUnknown)}, false},
		"scheduled": {[]corev1.PodCondition{cond(corev1.PodScheduled, corev1.ConditionTrue)}, false},
	} {
		if got := pod(&corev1.Pod{Status: corev1.PodStatus{Conditions: c.conditions}}); got.Ready != c.want || got.Terminating {
			t.Errorf("%s: %+v", name, got)
		}
	}
	now := metav1.NewTime(time.Unix(1, 0))
	yes := true
	got := pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now,
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "x", Controller: &yes}}}})
	if !got.Terminating || got.Owner != (cluster.Owner{Kind: "ReplicaSet", Name: "x", Controller: true}) {
		t.Errorf("%+v", got)
	}
}

func TestOwnersAndWritersAreTold(t *testing.T) {
	yes, no := true, false
	at := metav1.NewTime(time.Unix(3600, 0))
	fields := func(s string) *metav1.FieldsV1 { return metav1.NewFieldsV1(s) }
	w := deployment(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{Name: "a"}, {Name: "b", Controller: &no}, {Name: "c", Controller: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-edit", Time: &at, FieldsV1: fields(`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"vllm\"}":{".":{},"f:args":{}},"k:{\"id\":7}":{"f:image":{}},"k:x":{},"v:1":{}}}}}}`)},
			{Manager: "unreadable", FieldsV1: fields(`{`)},
			{Manager: "status", Subresource: "status"},
			{Manager: "empty", FieldsV1: fields(`{}`)},
			{Manager: "flat", FieldsV1: fields(`{"f:spec":1}`)},
		},
	}})
	var controllers []bool
	for _, o := range w.Owners {
		controllers = append(controllers, o.Controller)
	}
	if !slices.Equal(controllers, []bool{false, false, true}) {
		t.Errorf("%v", controllers)
	}
	m := w.Managers
	want := []string{"spec.replicas", "spec.template.spec.containers[vllm].args", "spec.template.spec.containers[x]", `spec.template.spec.containers[{"id":7}].image`}
	if !slices.Equal(m[0].Owns, want) || m[0].Status || !m[0].At.Equal(at.Time) {
		t.Errorf("%+v", m[0])
	}
	if len(m[1].Owns) != 0 || !m[1].At.IsZero() || !m[2].Status || len(m[2].Owns) != 0 || len(m[3].Owns) != 0 || m[4].Status ||
		len(m[4].Owns) != 0 {
		t.Errorf("%+v", m[1:])
	}
}

// kubectl scale writes the subresource, and so does an autoscaler's controller.
func TestScaleByHandIsAnEdit(t *testing.T) {
	at := metav1.NewTime(time.Unix(3600, 0))
	for manager, want := range map[string]bool{"kubectl": true, "kube-controller-manager": false, "keda": false} {
		w := deployment(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: manager, Subresource: "scale", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}}})
		if _, edited := w.HumanEdit(at.Add(-time.Minute)); edited != want || w.Declared() != "" {
			t.Errorf("%s: %t", manager, edited)
		}
	}
}
