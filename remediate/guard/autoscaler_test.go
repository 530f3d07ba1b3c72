package guard

import (
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/state"
)

// While an autoscaler changes the size of a pool, every action holds.
func TestScalingOfThePoolHolds(t *testing.T) {
	scaler := func(change func(*cluster.Autoscaler)) func(*Scene) {
		return func(s *Scene) {
			a := cluster.Autoscaler{Kind: "HorizontalPodAutoscaler", Name: "llama", Target: s.Workload.Ref, Known: true, Current: 5,
				Desired: 5}
			change(&a)
			s.Namespace.Autoscalers = append(s.Namespace.Autoscalers, a)
		}
	}
	steady := func(*cluster.Autoscaler) {}
	scaling := func(a *cluster.Autoscaler) { a.Desired = 6 }
	silent := func(a *cluster.Autoscaler) { a.Known = false }
	of := func(target cluster.Ref, change func(*cluster.Autoscaler)) func(*Scene) {
		return scaler(func(a *cluster.Autoscaler) { change(a); a.Target = target })
	}
	const wants = "HorizontalPodAutoscaler llama is scaling vllm: it wants "
	var list []guardCase
	for _, kind := range []string{playbooks.ActionSetEngineArg, playbooks.ActionRestartWorker} {
		list = append(list, []guardCase{
			{name: "it is steady", kind: kind, set: scaler(steady), want: state.Allow},
			{name: "it adds", kind: kind, set: scaler(scaling), want: state.Hold, says: wants + "6 replicas, last saw 5, and 5 are set", free: time.Minute},
			{name: "it removes", kind: kind, set: scaler(func(a *cluster.Autoscaler) { a.Desired = 4 }), want: state.Hold, says: wants + "4 replicas", free: time.Minute},
			{name: "it has not seen what it set", kind: kind, set: scaler(func(a *cluster.Autoscaler) { a.Current, a.Desired = 4, 5 }), want: state.Hold, says: wants + "5 replicas, last saw 4"},
			{name: "another number is set", kind: kind, set: scaler(func(a *cluster.Autoscaler) { a.Current, a.Desired = 4, 4 }),
				want: state.Hold, says: wants + "4 replicas, last saw 4, and 5 are set"},
			{name: "it tells nothing", kind: kind, set: scaler(silent), want: state.Hold, says: "HorizontalPodAutoscaler llama sets the replicas of vllm, but does not report how many",
				free: time.Minute},
			{name: "the second one", kind: kind, set: func(s *Scene) { scaler(steady)(s); scaler(scaling)(s) }, want: state.Hold, says: wants},
			{name: "of another pool", kind: kind, set: of(cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "other"}, scaling), want: state.Allow},
			{name: "of another pool, silent", kind: kind, set: of(cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "other"}, silent), want: state.Allow},
			{name: "of another kind of its name", kind: kind, set: of(cluster.Ref{Namespace: "llm", Kind: "StatefulSet", Name: "vllm"}, scaling), want: state.Allow},
		}...)
	}
	runGuardCases(t, ownership, list)
}
