package kubernetes

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A rollback to an older ReplicaSet is a rollout. It began with the first new pod of that
// ReplicaSet.
func TestRollbackCountsAsTheLastRollout(t *testing.T) {
	for name, c := range map[string]struct {
		revision string // of the old ReplicaSet; the newer one, of ten minutes ago, has 2
		pod      string // the ReplicaSet of the pod
		made     time.Duration
		want     float64
	}{
		"a rollout":                          {"1", "vllm-llama-7d9f8b6c5", 9 * time.Minute, 600},
		"an old pod is recreated":            {"1", "vllm-llama-5c4d", 4 * time.Minute, 600},
		"rolled back to the old one":         {"3", "vllm-llama-5c4d", 4 * time.Minute, 240},
		"rolled back before any replacement": {"3", "vllm-llama-5c4d", 5 * time.Hour, 600},
		"rolled back, without a new pod yet": {"3", "vllm-llama-7d9f8b6c5", 9 * time.Minute, 600},
		"no revisions are set":               {"", "vllm-llama-5c4d", 4 * time.Minute, 600},
	} {
		all := objects()
		for _, o := range all {
			switch o := o.(type) {
			case *appsv1.ReplicaSet:
				if o.Annotations = map[string]string{revisionKey: "2"}; o.Name == "vllm-llama-5c4d" {
					o.Annotations[revisionKey] = c.revision
				}
				if c.revision == "" {
					o.Annotations = nil
				}
			case *corev1.Pod:
				if o.Name == "vllm-llama-7d9f8b6c5-aaaa0" {
					o.CreationTimestamp, o.OwnerReferences[0].Name = metav1.NewTime(now.Add(-c.made)), c.pod
				}
			}
		}
		var got []float64
		for _, s := range New(fake.NewClientset(all...), nil).Read(t.Context(), query(t)).Samples {
			if s.Signal == "rollout_age" && s.Entity.Pool == "vllm-llama" {
				got = append(got, s.Value)
			}
		}
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %v s ago, want %g", name, got, c.want)
		}
	}
}
