package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"paramedic/e2e/bot"
	"paramedic/state"
	"paramedic/webhook/api"
)

// held returns nil if the autoscaler holds the run and the hold names it.
func held(a api.ActionJSON) error {
	for _, g := range a.Guards {
		if g.Guard == "ownership" && g.Decision == state.Hold && strings.Contains(g.Reason, "HorizontalPodAutoscaler "+poolName) {
			return nil
		}
	}
	return fmt.Errorf("%s: no autoscaler holds it: %+v", a.State, a.Guards)
}

// An autoscaler without metrics does not report how many workers it wants. It may start to scale at
// any time.
func TestSilentAutoscalerHoldsTheWrite(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: exhausted()})
	use, least := int32(50), int32(1)
	hpas := admin.AutoscalingV2().HorizontalPodAutoscalers(s.namespace)
	must(hpas.Create(s.Context(), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: poolName},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: workers + 2,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: poolName},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &use}}}}}},
		metav1.CreateOptions{}))(s.T)
	bot.Eventually(t, 30*time.Second, "the autoscaler has read the pool", func() error {
		now, err := hpas.Get(s.Context(), poolName, metav1.GetOptions{})
		if err != nil || len(now.Status.Conditions) < 2 || now.Status.CurrentReplicas != workers {
			return fmt.Errorf("%+v (%v)", now.Status, err)
		}
		return nil
	})
	s.alert("firing", exhaustion...)
	s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	if err := held(a); err != nil {
		t.Fatal(err)
	}
	s.approve()
	s.becomes(a.ID, 30*time.Second, state.Approved)
	bot.Eventually(t, 30*time.Second, "the approved run is held", func() error {
		now, err := s.action(a.ID)
		if err != nil || now.State != state.Approved {
			return fmt.Errorf("%s (%v)", now.State, err)
		}
		return held(now)
	})
	s.untouched(256)
}
