package guard

import (
	"context"
	"fmt"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// A Gauge reads live signals. Signals that cannot be read are in the evidence's Missing, never
// zero. A sample's time MUST be that of its measurement, not that of the call.
type Gauge interface {
	Read(ctx context.Context, cluster string, scope state.Scope, onset time.Time, signals []string) state.Evidence
}

// A Site holds the sources that a scene is read from, and the rules by which it is judged.
type Site struct {
	policy.Rules
	View     state.View
	Clusters map[string]cluster.Cluster // by the cluster's name in incidents
	Gauge    Gauge
	Clock    state.Clock   // nil: the system's
	Titles   verify.Titles // of signals, for texts
	// Observe is called with the answers of the guards, each time they are asked. Nil: it is not
	// called.
	Observe func([]state.GuardResult)
}

// Survey reads the cluster around an action's target, and the signals that the action needs. It
// reads a pod only if the target is one.
func (c *Site) Survey(ctx context.Context, in state.Incident, act *state.Action, kind Kind) *Scene {
	s := &Scene{Site: c, Now: c.Clock.Now(), Incident: in, Action: act, Kind: kind,
		Rule: c.For(act.Cause, act.Kind, act.Target), Cluster: c.Clusters[act.Target.Cluster]}
	s.actions = remembered(c.View, act.Incident)
	if s.Cluster == nil || s.Kind == nil {
		s.Problem = fmt.Errorf("no access to cluster %q is configured (clusters[].kubernetes)", act.Target.Cluster)
		s.Unread = s.Problem
		return s
	}
	s.Unread = s.look(ctx, s.PoolRef())
	s.Problem = s.Unread
	if s.Problem == nil && act.Target.Kind == "Pod" {
		s.Pod, s.Problem = s.Cluster.Pod(ctx, act.Target.Namespace, act.Target.Name)
	}
	s.Evidence = c.Gauge.Read(ctx, act.Target.Cluster, PoolScope(act.Target, in.Scope.Model), in.StartedAt, s.signals())
	return s
}
