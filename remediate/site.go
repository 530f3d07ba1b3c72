package remediate

import (
	"context"
	"fmt"
	"time"

	"paramedic/state"
)

// A Gauge reads live signals. What cannot be read is in the evidence's Missing, never a zero. A
// sample's time MUST be that of its measurement, not that of the call.
type Gauge interface {
	Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time, signals []string) state.Evidence
}

// A Site holds what a scene is read from, and the rules by which it is judged.
type Site struct {
	Rules
	View     state.View
	Clusters map[string]Cluster // by the incidents' cluster names
	Gauge    Gauge
	Clock    state.Clock // nil: the machine's
}

// survey reads the target's surroundings. Only what the action needs of a pod is read, and only
// where it names one.
func (c *Site) Survey(ctx context.Context, in state.Incident, act *state.Action, kind kindOfAction) *scene {
	s := &scene{site: c, now: c.Clock.Now(), in: in, act: act, kind: kind, rule: c.For(act.Cause, act.Kind, act.Target), cluster: c.Clusters[act.Target.Cluster]}
	s.actions = remembered(c.View, act.Incident)
	if s.cluster == nil || s.kind == nil {
		s.problem = fmt.Errorf("there is no write access configured for cluster %q", act.Target.Cluster)
		s.unread = s.problem
		return s
	}
	s.unread = s.look(ctx, s.poolRef())
	s.problem = s.unread
	if s.problem == nil && act.Target.Kind == "Pod" {
		s.pod, s.problem = s.cluster.Pod(ctx, act.Target.Namespace, act.Target.Name)
	}
	s.ev = c.Gauge.Read(ctx, act.Target.Cluster, poolScope(act.Target, in.Scope.Model), in.StartedAt, s.signals())
	return s
}
