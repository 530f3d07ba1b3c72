package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"paramedic/state"
)

// Tests that are not parallel run first, so that no other test uses the account meanwhile.
func TestObserveAndSuggestMakeNoMutatingCall(t *testing.T) {
	for _, mode := range []string{"observe", "suggest"} {
		t.Run(mode, func(t *testing.T) {
			since := time.Now()
			s := setting(t, options{mode: mode, engines: exhausted(), readOnly: true})
			s.alert("firing", exhaustion...)
			s.diagnosed("kv_exhaustion")
			a := s.offered("set_engine_arg", state.Proposed)
			s.proposed(a.Change)
			if a.Command == "" || a.Mode != mode {
				t.Errorf("the proposal has the mode %q and the command %q", a.Mode, a.Command)
			}
			code, answer, err := s.bot.Do("POST", "/api/v1/actions/"+string(a.ID)+"/approve",
				map[string]string{"actor": "ada", "plan_hash": a.PlanHash}, nil)
			if err != nil || code/100 == 2 {
				t.Errorf("an approval in mode %s is answered with %d %s (%v)", mode, code, answer, err)
			}
			if now, err := s.action(a.ID); err != nil || now.State.Running() {
				t.Errorf("after it the action is %s (%v)", now.State, err)
			}
			all := audit(t, "", since)
			if len(all) == 0 {
				t.Fatal("the audit log has no request of the bot")
			}
			for _, e := range all {
				if e.mutating() {
					t.Errorf("in mode %s: %s", mode, e)
				}
			}
			t.Logf("%d requests, all of them reads", len(all))
			s.settled()
		})
	}
}

// refusals returns the errors of requests that the bot's account must not make in any mode.
func refusals(ctx context.Context, c kubernetes.Interface, ns, pod string) map[string]error {
	merge := []byte(`{"metadata":{"annotations":{"e2e":"1"}}}`)
	out := map[string]error{}
	_, out["create pods"] = c.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	_, out["update pods"] = c.CoreV1().Pods(ns).Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}, metav1.UpdateOptions{})
	out["delete pods"] = c.CoreV1().Pods(ns).Delete(ctx, pod, metav1.DeleteOptions{})
	out["deletecollection pods"] = c.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_, out["update pods/status"] = c.CoreV1().Pods(ns).
		UpdateStatus(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}, metav1.UpdateOptions{})
	out["bind pods"] = c.CoreV1().Pods(ns).
		Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "gpu-0"}},
			metav1.CreateOptions{})
	_, out["update deployments"] = c.AppsV1().Deployments(ns).Update(ctx, deployment(), metav1.UpdateOptions{})
	_, out["create deployments"] = c.AppsV1().Deployments(ns).Create(ctx, deployment(), metav1.CreateOptions{})
	out["delete deployments"] = c.AppsV1().Deployments(ns).Delete(ctx, poolName, metav1.DeleteOptions{})
	_, out["update deployments/scale"] = c.AppsV1().Deployments(ns).
		UpdateScale(ctx, poolName, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: poolName}}, metav1.UpdateOptions{})
	_, out["patch deployments/scale"] = c.AppsV1().Deployments(ns).
		Patch(ctx, poolName, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}, "scale")
	_, out["patch statefulsets"] = c.AppsV1().StatefulSets(ns).Patch(ctx, "x", types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["patch replicasets"] = c.AppsV1().ReplicaSets(ns).Patch(ctx, "x", types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["patch nodes"] = c.CoreV1().Nodes().
		Patch(ctx, "gpu-0", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	out["delete nodes"] = c.CoreV1().Nodes().Delete(ctx, "gpu-0", metav1.DeleteOptions{})
	_, out["patch namespaces"] = c.CoreV1().Namespaces().Patch(ctx, ns, types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["patch services"] = c.CoreV1().Services(ns).Patch(ctx, poolName, types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["get secrets"] = c.CoreV1().Secrets(ns).Get(ctx, "x", metav1.GetOptions{})
	_, out["list secrets"] = c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	_, out["create configmaps"] = c.CoreV1().ConfigMaps(ns).
		Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	_, out["create events"] = c.CoreV1().Events(ns).
		Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x"}, InvolvedObject: corev1.ObjectReference{Namespace: ns}},
			metav1.CreateOptions{})
	_, out["patch poddisruptionbudgets"] = c.PolicyV1().PodDisruptionBudgets(ns).
		Patch(ctx, "x", types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["patch horizontalpodautoscalers"] = c.AutoscalingV2().HorizontalPodAutoscalers(ns).
		Patch(ctx, "x", types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["patch roles"] = c.RbacV1().Roles(ns).Patch(ctx, "paramedic-first-aid", types.MergePatchType, merge, metav1.PatchOptions{})
	_, out["create serviceaccounts/token"] = c.CoreV1().ServiceAccounts("paramedic").
		CreateToken(ctx, "paramedic", &authv1.TokenRequest{}, metav1.CreateOptions{})
	return out
}

// firstAid are the writes that first-aid.yaml grants in its namespace.
func firstAid(ctx context.Context, c kubernetes.Interface, ns, pod string) map[string]error {
	merge, dry := []byte(`{"metadata":{"annotations":{"e2e":"1"}}}`), []string{metav1.DryRunAll}
	out := map[string]error{}
	_, out["patch deployments"] = c.AppsV1().Deployments(ns).
		Patch(ctx, poolName, types.MergePatchType, merge, metav1.PatchOptions{DryRun: dry})
	_, out["patch pods"] = c.CoreV1().Pods(ns).Patch(ctx, pod, types.MergePatchType, merge, metav1.PatchOptions{DryRun: dry})
	out["create pods/eviction"] = c.PolicyV1().Evictions(ns).
		Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: ns},
			DeleteOptions: &metav1.DeleteOptions{DryRun: dry}})
	return out
}

func TestManifestsGrantOnlyWhatTheModeNeeds(t *testing.T) {
	observed := &scene{T: t, namespace: namespace(t), engines: exhausted()}
	treated := &scene{T: t, namespace: namespace(t), engines: exhausted()}
	if err := shippedFirstAid(t.Context(), treated.namespace); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*scene{observed, treated} {
		raise(t, s.namespace, s.engines)
		s.deploy()
	}
	reader, aid := clientOf(t, ""), clientOf(t, firstAidAccount)
	for _, s := range []*scene{observed, treated} {
		pod := s.pods()[0].Name
		for who, c := range map[string]*kubernetes.Clientset{"the bot": reader, "first aid": aid} {
			for what, err := range refusals(t.Context(), c, s.namespace, pod) {
				if !forbidden(err) {
					t.Errorf("%s may %s: %v", who, what, err)
				}
			}
			for what, err := range firstAid(t.Context(), c, s.namespace, pod) {
				if may := c == aid && s == treated; may && err != nil || !may && !forbidden(err) {
					t.Errorf("%s, in a namespace with first-aid.yaml (%t), asks to %s: %v", who, s == treated, what, err)
				}
			}
		}
	}
	if _, err := reader.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the bot cannot read: %v", err)
	}
	if text := fmt.Sprint(firstAid(t.Context(), aid, "kube-system", "x")); strings.Count(text, "forbidden") != 3 {
		t.Errorf("the Role reaches into another namespace: %s", text)
	}
}
