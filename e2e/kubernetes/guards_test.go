package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"paramedic/e2e/bot"
	"paramedic/state"
)

// edit patches the value as a person does with kubectl.
func (s *scene) edit(to int) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/args/1","value":"--max-num-seqs=%d"}]`, to)
	_, err := admin.AppsV1().Deployments(s.namespace).
		Patch(s.Context(), poolName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-patch"})
	return err
}

func TestEditAfterPlanIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: exhausted()})
	s.alert("firing", exhaustion...)
	s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	if err := s.edit(200); err != nil {
		t.Fatal(err)
	}
	s.approve()
	ended := s.becomes(a.ID, 30*time.Second, state.Denied, state.Superseded)
	if !strings.Contains(ended.Reason, "and is 200 now") {
		t.Errorf("%s, but the reason does not name the edit: %s", ended.State, ended.Reason)
	}
	s.untouched(200)
}

func TestEditBetweenIntentAndWriteIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: exhausted(), gated: true})
	s.alert("firing", exhaustion...)
	s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	s.gate.once(func() bool {
		if err := s.edit(200); err != nil {
			t.Errorf("the person's edit: %v", err)
		}
		return true
	}, nil)
	s.approve()
	ended := s.becomes(a.ID, 30*time.Second, state.NeedsHuman, state.Superseded, state.Denied)
	if !strings.Contains(ended.Reason, "nothing was written") || strings.Contains(ended.Reason, "undo") {
		t.Errorf("%s, but the reason must say that nothing was written, and offer no undo: %s", ended.State, ended.Reason)
	}
	s.untouched(200)
}

// untouched checks that the bot wrote nothing and that the person's value is in force.
func (s *scene) untouched(value int) {
	s.Helper()
	bot.Eventually(s, 20*time.Second, "the person's value is rolled out", func() error { return s.rolledOut(value) })
	if got := writes(s.T, s.namespace); len(got) != 0 {
		s.Errorf("the bot wrote: %v", got)
	}
	s.settled()
}

// budget sets the disruption budget's minAvailable, and waits until its status shows the allowed
// disruptions.
func (s *scene) budget(keep, allowed int) {
	s.Helper()
	n := intstr.FromInt(keep)
	budgets := admin.PolicyV1().PodDisruptionBudgets(s.namespace)
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: poolName},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &n,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": poolName}}}}
	if old, err := budgets.Get(s.Context(), poolName, metav1.GetOptions{}); err == nil {
		pdb.ResourceVersion = old.ResourceVersion
		must(budgets.Update(s.Context(), pdb, metav1.UpdateOptions{}))(s.T)
	} else {
		must(budgets.Create(s.Context(), pdb, metav1.CreateOptions{}))(s.T)
	}
	bot.Eventually(s, 10*time.Second, fmt.Sprintf("the budget allows %d", allowed), func() error {
		now, err := budgets.Get(s.Context(), poolName, metav1.GetOptions{})
		if err != nil || now.Status.ObservedGeneration < now.Generation || int(now.Status.DisruptionsAllowed) != allowed {
			return fmt.Errorf("%+v (%v)", now.Status, err)
		}
		return nil
	})
}

var usage = regexp.MustCompile(`(?m)^vllm:kv_cache_usage_perc\{[^}]*\} (\S+)`)

// fullest returns the worker with the highest cache usage.
func (s *scene) fullest() corev1.Pod {
	s.Helper()
	holds := func(p corev1.Pod) float64 {
		m := usage.FindStringSubmatch(must(metricsOf(&p))(s.T))
		if m == nil {
			s.Fatalf("%s exports no KV cache usage", p.Name)
		}
		return must(strconv.ParseFloat(m[1], 64))(s.T)
	}
	return slices.MaxFunc(s.pods(), func(a, b corev1.Pod) int { return int(1e6 * (holds(a) - holds(b))) })
}

func TestBlockedEvictionReturnsWorkerToService(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: leaking()})
	s.budget(workers-1, 1)
	sick := s.fullest()
	bot.Eventually(t, 60*time.Second, "the leaking worker was busy and is idle", func() error { return monitoring.rested(sick.Name) })
	s.alert("firing", webhookAlert{"VLLMKVHeldWhileIdle", "warning", sick.Name})
	s.diagnosed("kv_leak")
	a := s.offered("restart_worker", state.AwaitingApproval)
	if a.Target.Name != sick.Name || a.Target.UID != string(sick.UID) {
		t.Fatalf("the plan is to restart %s, not %s", a.Target, sick.Name)
	}
	s.engines.busy.Store(true) // a client keeps its stream open, so that the drain waits
	s.approve()
	labelled := func(value string) func() error {
		return func() error {
			p, err := admin.CoreV1().Pods(s.namespace).Get(s.Context(), sick.Name, metav1.GetOptions{})
			if err != nil || p.UID != sick.UID || p.Labels[serving] != value {
				return fmt.Errorf("the worker has the labels %v (%v)", p.Labels, err)
			}
			return nil
		}
	}
	bot.Eventually(t, 30*time.Second, "the worker is out of serving", labelled("isolated-by-paramedic"))
	s.budget(workers, 0)
	s.engines.busy.Store(false)
	ended := s.becomes(a.ID, 60*time.Second, state.NeedsHuman)
	if !strings.Contains(ended.Reason, "refused the eviction for") || !strings.Contains(ended.Reason, "serves again") {
		t.Errorf("the reason is: %s", ended.Reason)
	}
	if err := labelled("true")(); err != nil {
		t.Error(err)
	}
	evictions, patches := 0, 0
	for _, e := range audit(t, s.namespace, time.Time{}) {
		switch {
		case e.dryRun() || !e.mutating():
		case e.ObjectRef.Subresource == "eviction":
			evictions++
			if e.ResponseStatus.Code != 429 {
				t.Errorf("an eviction was answered with %d", e.ResponseStatus.Code)
			}
		case e.Verb == "patch" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Name == sick.Name:
			patches++
		default:
			t.Errorf("a write that belongs to no step: %s", e)
		}
	}
	if evictions < 2 || patches != 2 {
		t.Errorf("%d evictions and %d patches of the worker, want at least two and exactly two", evictions, patches)
	}
	s.settled()
}
