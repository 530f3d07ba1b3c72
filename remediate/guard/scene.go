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

// A Scene holds the facts that guards judge an action by, read afresh each time.
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

// remembered returns the runs that guards count: every run that began, and the incident's own.
func remembered(v state.View, id state.IncidentID) []state.Action {
	out := v.BegunActions()
	for _, a := range v.ActionsOf(id) {
		if !a.Begun() {
			out = append(out, a)
		}
	}
	return out
}

// look reads the workload, its pods and its namespace.
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

// PoolRef names the workload that runs the pool.
func (s *Scene) PoolRef() cluster.Ref {
	t := s.Action.Target
	if t.Kind == "Pod" {
		return cluster.Ref{Namespace: t.Namespace, Kind: cmp.Or(s.Action.Params["pool_kind"], "Deployment"),
			Name: t.Pool}
	}
	return cluster.Ref{Namespace: t.Namespace, Kind: t.Kind, Name: t.Name}
}

// signals returns the signals that guards and verification of the action read.
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

// fromAlert reports whether a finding only repeats that an alert fires.
func fromAlert(f state.Finding) bool { return strings.HasPrefix(f.Signal, "symptom:") }

// PoolScope returns the scope of the whole pool.
func PoolScope(t state.Target, model string) state.Scope {
	return state.Scope{Cluster: t.Cluster, Namespace: t.Namespace, Model: model, Pool: t.Pool}
}

// ValuesOf returns a signal's fresh, finite values on the pods that the filter takes.
func ValuesOf(ev state.Evidence, signal string, oldest time.Time, take func(state.Entity) bool) []float64 {
	var out []float64
	for _, v := range ev.Samples {
		if v.Signal == signal && take(v.Entity) && !v.At.Before(oldest) && finite(v.Value) {
			out = append(out, v.Value)
		}
	}
	return out
}

// finite reports whether a value was measured. A ratio over zero is not a number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// title returns a signal's title for a text.
func (s *Scene) title(signal string) string { return s.Site.Titles.Of(signal) }

// inPool reports whether an entity is a worker of the scene's pool.
func (s *Scene) inPool(e state.Entity) bool {
	return slices.ContainsFunc(s.Pods,
		func(p cluster.Pod) bool { return p.Name == e.Pod && (e.Namespace == "" || e.Namespace == p.Namespace) })
}

// Of returns the fresh values of a signal on the pool's workers.
func (s *Scene) Of(signal string) []float64 {
	return ValuesOf(s.Evidence, signal, s.Now.Add(-s.Rule.EvidenceAge), s.inPool)
}

// Newest returns the newest fresh value of a signal on one pod. If pod is empty, it is a value of
// the whole pool.
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

// Ranks returns how many data-parallel ranks each worker of the pool runs, and whether its limit of
// requests is one for all of them.
func (s *Scene) Ranks() (ranks int, together bool, err error) {
	all := s.Workload.Containers
	if p, err := engineflag.Locate(all, engineflag.CapFlag(all)); err == nil {
		return engineflag.Ranks(all[p.Container])
	}
	return 1, false, nil
}

// slots returns how many requests a worker of the pool runs at most: by the pod template, or else
// by live signals.
func (s *Scene) slots() (int, bool) {
	all := s.Workload.Containers
	if p, err := engineflag.Locate(all, engineflag.CapFlag(all)); err == nil && !p.Absent {
		ranks, together, err := engineflag.Ranks(all[p.Container])
		if together {
			ranks = 1
		}
		return p.Value * ranks, err == nil
	}
	if v := s.Of("max_num_seqs"); len(v) > 0 && slices.Min(v) == slices.Max(v) && v[0] >= 1 {
		return int(v[0]), true
	}
	return 0, false
}

// sum returns the sum of the values.
func sum(v []float64) (t float64) {
	for _, x := range v {
		t += x
	}
	return t
}

// A Kind is one kind of action, with the methods that guards need.
type Kind interface {
	Metrics() []verify.Metric
	// Write prepares the effect and its inverse, from fresh reads.
	Write(s *Scene, opID string) (state.Write, error)
	// DryRun sends the writes to the API server, which judges them and stores nothing.
	DryRun(ctx context.Context, s *Scene, w state.Write) error
}
