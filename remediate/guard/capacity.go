package guard

import (
	"context"
	"fmt"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
)

// capacity allows if the remaining workers would carry the present load.
//
// In mode auto, at least ready_percent of the pool must stay ready, and the projected use must stay
// below max_load. So a pool of fewer than five workers is not disrupted without a person, unless a
// rollout adds workers before it removes any. A person's approval lowers that to one other ready
// worker and a projected use of at most 100 %.
func capacity(_ context.Context, s *Scene) verdict {
	have := cluster.CountReady(s.Pods)
	total := max(s.Workload.Replicas, len(s.Pods))
	if total <= 0 {
		return deny("%s", s.unsized())
	}
	lost, how := s.lost()
	left := have - lost
	if lost == 0 && left >= 1 && s.Action.Target.Kind != "Pod" {
		return allow("%d of %d workers are ready, and the rollout adds before it removes (maxUnavailable 0, maxSurge %d)",
			have, total, s.Workload.MaxSurge)
	}
	if left < 1 {
		return deny("no other worker would stay ready (%d of %d are ready, %s): add a worker first", have, total, how)
	}
	if v, stop := s.disruption(); stop {
		return v
	}
	load, text, ok := s.load(left)
	if !ok {
		return deny("the present load is unknown: %s", text)
	}
	text = fmt.Sprintf("%d of %d workers stay ready (%s), and %s", left, total, how, text)
	if s.Rule.Mode == policy.Auto {
		if need := max(1, (total*s.Rule.ReadyPercent+99)/100); left < need {
			return deny("%s; mode auto needs %d ready (ready_percent %d)", text, need, s.Rule.ReadyPercent)
		}
		if load > s.Rule.MaxLoad {
			return deny("%s; mode auto allows %.0f %% at most (max_load)", text, s.Rule.MaxLoad*100)
		}
		return allow("%s", text)
	}
	if load > 1 {
		return deny("%s: they cannot carry the load; shed load or add workers first", text)
	}
	return allow("%s", text)
}

// unsized returns the reason for a pool of unknown size.
func (s *Scene) unsized() string {
	return fmt.Sprintf("the pool's size is unknown: %s wants %d pods and has %d", s.Workload.Name, s.Workload.Replicas,
		len(s.Pods))
}

// lost returns how many ready workers the action takes away at once, and how it does so.
func (s *Scene) lost() (int, string) {
	if s.Action.Target.Kind == "Pod" {
		if s.Pod.Ready {
			return 1, "the action restarts one"
		}
		return 0, "the worker to restart is not ready"
	}
	if s.Workload.Recreate {
		return s.Workload.Replicas, "the strategy Recreate stops all at once"
	}
	if s.Workload.MaxUnavailable == 0 && s.Workload.MaxSurge > 0 {
		return 0, "the rollout takes none away"
	}
	n := max(1, s.Workload.MaxUnavailable)
	return n, fmt.Sprintf("the rollout takes %d away at once", n)
}

// disruption returns the answer of the budgets that cover the worker to be evicted, if one of them
// stops it.
func (s *Scene) disruption() (verdict, bool) {
	if s.Action.Target.Kind != "Pod" {
		return verdict{}, false
	}
	var covering []cluster.Budget
	for _, b := range s.Namespace.Budgets {
		if b.ComplexSelector {
			return deny("PodDisruptionBudget %s selects by more than matchLabels, so the pods that it covers are unknown", b.Name), true
		}
		if cluster.Selects(b.Selector, s.Pod.Labels) {
			covering = append(covering, b)
		}
	}
	switch {
	case len(covering) > 1:
		return deny("%d PodDisruptionBudgets cover the worker (%s, %s), so Kubernetes refuses every eviction: keep only one",
			len(covering), covering[0].Name, covering[1].Name), true
	case len(covering) == 1 && covering[0].Allowed < 1:
		return hold(s.Now.Add(time.Minute), "PodDisruptionBudget %s allows no eviction now", covering[0].Name), true
	}
	return verdict{}, false
}

// load returns the projected use of the remaining workers: the requests that run now, over the
// remaining places. If the number of places is unknown, it is the use of the KV cache.
func (s *Scene) load(left int) (float64, string, bool) {
	running := s.Of("requests_running")
	if seqs, ok := s.slots(); ok && len(running) > 0 && len(running) >= cluster.CountReady(s.Pods) {
		u := sum(running) / float64(left*seqs)
		return u, fmt.Sprintf("the %.0f running requests would use %.0f %% of their slots (max_num_seqs)", sum(running), 100*u), true
	}
	kv := s.Of("kv_usage")
	if len(kv) > 0 && len(kv) >= cluster.CountReady(s.Pods) {
		u := sum(kv) / float64(left)
		return u, fmt.Sprintf("their KV cache would be %.0f %% full", 100*u), true
	}
	return 0, fmt.Sprintf("of %d ready workers, %d report %s and %d report %s; all must report one of the two, "+
		"and the first also needs a known max_num_seqs", cluster.CountReady(s.Pods), len(running),
		s.title("requests_running"), len(kv), s.title("kv_usage")), false
}
