package guard

import (
	"context"

	"paramedic/remediate/cluster"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// Measure returns each metric of the action, from the scene's evidence. pod is the treated worker,
// for metrics of one worker. It returns nothing if the pool could not be read, because any value
// may then be another pool's.
func (s *Scene) Measure(pod string, oldest int64) map[string]float64 {
	if s.Unread != nil {
		return nil
	}
	out := map[string]float64{}
	for _, m := range verify.Applying(s.Kind.Metrics(), s.Action) {
		if m.Agg == verify.AggReady {
			out[m.Signal], out[verify.WantedSignal] = float64(cluster.CountReady(s.Pods)), float64(s.Workload.Replicas)
			continue
		}
		mine, peer, need := s.inPool, s.inOther, 1
		if m.Target {
			mine = func(e state.Entity) bool { return e.Pod == pod }
			peer = func(e state.Entity) bool { return e.Pod != pod && s.inPool(e) }
		} else if m.Agg == verify.AggSum {
			need = max(1, cluster.CountReady(s.Pods)) // a sum that lacks a worker looks like an improvement
		}
		if v, ok := m.Of(s.Evidence, oldest, need, mine); ok {
			out[m.Signal] = v
		} else if v, ok := s.Newest(m.Signal, ""); ok && !m.Target &&
			v.Entity.Pool == s.Workload.Name && v.At.UnixNano() >= oldest {
			out[m.Signal] = v.Value // some gateways report it for the pool only
		}
		if v, ok := m.Of(s.Evidence, oldest, 1, peer); ok {
			out[verify.PeerPrefix+m.Signal] = v
		}
	}
	return out
}

// PeersEvidence adds the samples of the same metrics on the model's other pools.
func (s *Scene) PeersEvidence(ctx context.Context) {
	if s.Action.Target.Kind == "Pod" || s.Incident.Scope.Model == "" {
		return
	}
	sc := state.Scope{Cluster: s.Action.Target.Cluster, Namespace: s.Action.Target.Namespace,
		Model: s.Incident.Scope.Model}
	ev := s.Site.Gauge.Read(ctx, sc.Cluster, sc, s.Incident.StartedAt, verify.Signals(s.Kind.Metrics()))
	for _, v := range ev.Samples {
		if s.inOther(v.Entity) {
			s.Evidence.Samples = append(s.Evidence.Samples, v)
		}
	}
}

// inOther reports whether an entity belongs to another pool. A former worker of this pool does not.
func (s *Scene) inOther(e state.Entity) bool {
	return e.Pool != "" && e.Pool != s.Workload.Name && !s.inPool(e)
}

// Breaches reports whether a guardrail is worse than a change may cost while it takes effect. A
// value that cannot be read is no breach, because the verification that follows judges it.
func (s *Scene) Breaches(m verify.Metric, got map[string]float64) bool {
	base, known := s.Action.Verify.Baseline[m.Signal]
	now, ok := got[m.Signal]
	if !known || !ok {
		return false
	}
	if m.Agg == verify.AggReady {
		now += max(0, s.Action.Verify.Baseline[verify.WantedSignal]-got[verify.WantedSignal])
		base -= float64(s.takenAway())
	}
	m.Worse, m.Noise = m.Rolling.Worse, m.Rolling.Noise
	_, worse := m.Compare(base, now)
	return worse
}

// takenAway returns how many workers the change itself takes away at once.
func (s *Scene) takenAway() int {
	if s.Action.Target.Kind == "Pod" {
		return 1
	}
	n, _ := s.lost()
	return n
}
