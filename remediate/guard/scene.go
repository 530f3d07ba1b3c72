package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/engineflag"
	"paramedic/remediate/policy"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// A Scene is everything that guards judge an action by, read afresh each time.
type Scene struct {
	Site     *Site
	Now      time.Time
	Rule     policy.Rule
	Incident state.Incident
	Action   *state.Action
	Kind     Kind

	Cluster   cluster.Cluster
	Namespace cluster.Namespace
	Workload  cluster.Workload
	Pods      []cluster.Pod
	Pod       cluster.Pod // of a per-worker action
	Evidence  state.Evidence

	actions []state.Action
	Unread  error // why the pool could not be read
	Problem error // why the live reads are not whole; guards that need them deny
}

// remembered returns the runs that guards count: all that began, and the incident's own.
func remembered(v state.View, id state.IncidentID) []state.Action {
	out := v.BegunActions()
	for _, a := range v.ActionsOf(id) {
		if !a.Begun() {
			out = append(out, a)
		}
	}
	return out
}

func (s *Scene) look(ctx context.Context, ref cluster.Ref) error {
	var err1, err2, err3 error
	s.Workload, err1 = s.Cluster.Workload(ctx, ref)
	if err1 != nil {
		return fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err1)
	}
	s.Pods, err2 = s.Cluster.Pods(ctx, s.Workload)
	s.Namespace, err3 = s.Cluster.Namespace(ctx, ref.Namespace)
	return errors.Join(err2, err3)
}

func (s *Scene) PoolRef() cluster.Ref {
	t := s.Action.Target
	if t.Kind == "Pod" {
		return cluster.Ref{Namespace: t.Namespace, Kind: cmp.Or(s.Action.Params["pool_kind"], "Deployment"),
			Name: t.Pool}
	}
	return cluster.Ref{Namespace: t.Namespace, Kind: t.Kind, Name: t.Name}
}

// signals are all that guards and verification of the action read.
func (s *Scene) signals() []string {
	out := []string{"requests_running", "requests_waiting", "kv_usage", "max_num_seqs",
		"kv_blocks_total", "kv_block_size", "prompt_length_mean", "output_length_mean"}
	out = append(out, verify.Signals(s.Kind.Metrics())...)
	for _, f := range s.Incident.Diagnosis.Findings {
		if f.Weight > 0 && !fromAlert(f) {
			out = append(out, f.Signal)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fromAlert says whether a finding only repeats that an alert fires.
func fromAlert(f state.Finding) bool { return strings.HasPrefix(f.Signal, "symptom:") }

// poolScope is the whole pool.
func PoolScope(t state.Target, model string) state.Scope {
	return state.Scope{Cluster: t.Cluster, Namespace: t.Namespace, Model: model, Pool: t.Pool}
}

// values are a signal's fresh, finite values on the pods that the filter takes.
func ValuesOf(ev state.Evidence, signal string, oldest time.Time, take func(state.Entity) bool) []float64 {
	var out []float64
	for _, v := range ev.Samples {
		if v.Signal == signal && take(v.Entity) && !v.At.Before(oldest) && finite(v.Value) {
			out = append(out, v.Value)
		}
	}
	return out
}

// finite reports whether a value was measured: what divides by nothing is no number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// inPool says whether an entity is a worker of the scene's pool.
func (s *Scene) inPool(e state.Entity) bool {
	return slices.ContainsFunc(s.Pods,
		func(p cluster.Pod) bool { return p.Name == e.Pod && (e.Namespace == "" || e.Namespace == p.Namespace) })
}

// of are the fresh values of a signal on the pool's workers.
func (s *Scene) Of(signal string) []float64 {
	return ValuesOf(s.Evidence, signal, s.Now.Add(-s.Rule.EvidenceAge), s.inPool)
}

// newest is the newest fresh value of a signal on one pod, or of the pool as a whole where pod is
// empty.
func (s *Scene) Newest(signal, pod string) (state.Sample, bool) {
	var best state.Sample
	for _, v := range s.Evidence.Samples {
		if v.Signal != signal || v.Entity.Pod != pod || v.At.Before(s.Now.Add(-s.Rule.EvidenceAge)) ||
			!finite(v.Value) {
			continue
		}
		if pod == "" && v.Entity.Pool != "" && v.Entity.Pool != s.Workload.Name {
			continue
		}
		if v.At.After(best.At) {
			best = v
		}
	}
	return best, best.Signal != ""
}

// seqs is the pool's max_num_seqs: what the pod template says, else what live signals say.
func (s *Scene) seqs() (int, bool) {
	if p, err := engineflag.Locate(s.Workload.Containers, engineflag.CapFlag(s.Workload.Containers)); err == nil &&
		!p.Absent {
		return p.Value, true
	}
	if v := s.Of("max_num_seqs"); len(v) > 0 && slices.Min(v) == slices.Max(v) && v[0] >= 1 {
		return int(v[0]), true
	}
	return 0, false
}

func sum(v []float64) (t float64) {
	for _, x := range v {
		t += x
	}
	return t
}

// A kindOfAction is as much of a kind of action as guards have to know.
type Kind interface {
	Metrics() []verify.Metric
	// Write prepares the effect and its inverse, from fresh reads.
	Write(s *Scene, opID string) (state.Write, error)
	// DryRun has the API server judge the writes without storing them.
	DryRun(ctx context.Context, s *Scene, w state.Write) error
}
