package remediate

import (
	"context"

	"paramedic/state"
)

// measure reads each metric off the scene's evidence; pod is the treated worker for metrics of one.
// It returns nothing if the pool could not be read, because any value may then be another pool's.
func (s *scene) measure(pod string, oldest int64) map[string]float64 {
	if s.unread != nil {
		return nil
	}
	out := map[string]float64{}
	for _, m := range applying(s.kind.Metrics(), s.act) {
		if m.agg == aggReady {
			out[m.signal], out[wantedSignal] = float64(ready(s.pods)), float64(s.w.Replicas)
			continue
		}
		mine, peer, need := s.inPool, s.inOther, 1
		if m.target {
			mine = func(e state.Entity) bool { return e.Pod == pod }
			peer = func(e state.Entity) bool { return e.Pod != pod && s.inPool(e) }
		} else if m.agg == aggSum {
			need = max(1, ready(s.pods)) // a sum that lacks a worker looks like an improvement
		}
		if v, ok := m.of(s.ev, oldest, need, mine); ok {
			out[m.signal] = v
		} else if v, ok := s.newest(m.signal, ""); ok && !m.target && v.Entity.Pool == s.w.Name && v.At.UnixNano() >= oldest {
			out[m.signal] = v.Value // some gateways tell it of the pool only
		}
		if v, ok := m.of(s.ev, oldest, 1, peer); ok {
			out[peerPrefix+m.signal] = v
		}
	}
	return out
}

// peersEvidence adds what the same metrics are on the model's other pools.
func (s *scene) peersEvidence(ctx context.Context) {
	if s.act.Target.Kind == "Pod" || s.in.Scope.Model == "" {
		return
	}
	sc := state.Scope{Cluster: s.act.Target.Cluster, Namespace: s.act.Target.Namespace, Model: s.in.Scope.Model}
	for _, v := range s.site.Gauge.Read(ctx, sc.Cluster, sc, s.in.StartedAt, names(s.kind.Metrics())).Samples {
		if s.inOther(v.Entity) {
			s.ev.Samples = append(s.ev.Samples, v)
		}
	}
}

// inOther reports whether an entity is of another pool. A worker of this pool that is gone by now
// is not.
func (s *scene) inOther(e state.Entity) bool {
	return e.Pool != "" && e.Pool != s.w.Name && !s.inPool(e)
}

// breaches reports whether a guardrail is worse than a change may cost while it takes effect. What
// cannot be read is no breach: the verification that follows judges it.
func (s *scene) breaches(m metric, got map[string]float64) bool {
	base, known := s.act.Verify.Baseline[m.signal]
	now, ok := got[m.signal]
	if !known || !ok {
		return false
	}
	if m.agg == aggReady {
		now += max(0, s.act.Verify.Baseline[wantedSignal]-got[wantedSignal])
		base -= float64(s.away())
	}
	m.worse, m.noise = m.rolling.worse, m.rolling.noise
	_, worse := m.compare(base, now)
	return worse
}

// away returns how many workers the change itself takes away at once.
func (s *scene) away() int {
	if s.act.Target.Kind == "Pod" {
		return 1
	}
	n, _ := s.lost()
	return n
}
