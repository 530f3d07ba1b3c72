package remediate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A scene is everything that guards judge an action by, read afresh each time.
type scene struct {
	site *Site
	now  time.Time
	rule rule
	in   state.Incident
	act  *state.Action
	kind kindOfAction

	cluster Cluster
	ns      Namespace
	w       Workload
	pods    []Pod
	pod     Pod // of a per-worker action
	ev      state.Evidence

	actions []state.Action
	unread  error // why the pool could not be read
	problem error // why the live reads are not whole; guards that need them deny
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

func (s *scene) look(ctx context.Context, ref Ref) error {
	var err1, err2, err3 error
	s.w, err1 = s.cluster.Workload(ctx, ref)
	if err1 != nil {
		return fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err1)
	}
	s.pods, err2 = s.cluster.Pods(ctx, s.w)
	s.ns, err3 = s.cluster.Namespace(ctx, ref.Namespace)
	return errors.Join(err2, err3)
}

func (s *scene) poolRef() Ref {
	t := s.act.Target
	if t.Kind == "Pod" {
		return Ref{t.Namespace, cmp.Or(s.act.Params["pool_kind"], "Deployment"), t.Pool}
	}
	return Ref{t.Namespace, t.Kind, t.Name}
}

// signals are all that guards and verification of the action read.
func (s *scene) signals() []string {
	out := []string{"requests_running", "requests_waiting", "kv_usage", "max_num_seqs",
		"kv_blocks_total", "kv_block_size", "prompt_length_mean", "output_length_mean"}
	out = append(out, names(s.kind.Metrics())...)
	for _, f := range s.in.Diagnosis.Findings {
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
func poolScope(t state.Target, model string) state.Scope {
	return state.Scope{Cluster: t.Cluster, Namespace: t.Namespace, Model: model, Pool: t.Pool}
}

// values are a signal's fresh, finite values on the pods that the filter takes.
func values(ev state.Evidence, signal string, oldest time.Time, take func(state.Entity) bool) []float64 {
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
func (s *scene) inPool(e state.Entity) bool {
	return slices.ContainsFunc(s.pods, func(p Pod) bool { return p.Name == e.Pod && (e.Namespace == "" || e.Namespace == p.Namespace) })
}

// of are the fresh values of a signal on the pool's workers.
func (s *scene) of(signal string) []float64 {
	return values(s.ev, signal, s.now.Add(-s.rule.EvidenceAge), s.inPool)
}

// newest is the newest fresh value of a signal on one pod, or of the pool as a whole where pod is
// empty.
func (s *scene) newest(signal, pod string) (state.Sample, bool) {
	var best state.Sample
	for _, v := range s.ev.Samples {
		if v.Signal != signal || v.Entity.Pod != pod || v.At.Before(s.now.Add(-s.rule.EvidenceAge)) || !finite(v.Value) {
			continue
		}
		if pod == "" && v.Entity.Pool != "" && v.Entity.Pool != s.w.Name {
			continue
		}
		if v.At.After(best.At) {
			best = v
		}
	}
	return best, best.Signal != ""
}

// seqs is the pool's max_num_seqs: what the pod template says, else what live signals say.
func (s *scene) seqs() (int, bool) {
	if p, err := locate(s.w.Containers, capFlag(s.w.Containers)); err == nil && !p.absent {
		return p.value, true
	}
	if v := s.of("max_num_seqs"); len(v) > 0 && slices.Min(v) == slices.Max(v) && v[0] >= 1 {
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
type kindOfAction interface {
	Metrics() []metric
	// Write prepares the effect and its inverse, from fresh reads.
	Write(s *scene, opID string) (state.Write, error)
	// DryRun has the API server judge the writes without storing them.
	DryRun(ctx context.Context, s *scene, w state.Write) error
}
