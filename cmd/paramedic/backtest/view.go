package backtest

import (
	"context"
	"fmt"

	"paramedic/remediate/cluster"
	"paramedic/state"
	"paramedic/state/fold"
)

// A memory is the guards' view of a board. A backtest proposes actions and takes none, so no action
// was ever begun. First aid is never halted, because the log of the past is not known.
type memory struct{ board *fold.Board }

// Incident implements state.View.
func (m memory) Incident(id state.IncidentID) (state.Incident, bool) {
	if in := m.board.Incident(id); in != nil {
		return in.Clone(), true
	}
	return state.Incident{}, false
}

// ListIncidents implements state.View. It returns all that match, in no order.
func (m memory) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	var out state.IncidentPage
	for in := range m.board.EveryIncident() {
		switch {
		case q.Which == state.OpenIncidents && !in.Open(), q.Which == state.ResolvedIncidents && in.Open(),
			in.OpenedAt.Before(q.Since), q.Match != nil && !q.Match(in):
		default:
			out.Incidents = append(out.Incidents, in.Clone())
		}
	}
	return out
}

// Tally implements state.View.
func (m memory) Tally() state.Tally {
	var out state.Tally
	for in := range m.board.EveryIncident() {
		if in.Open() {
			out.Open++
		} else {
			out.Resolved++
		}
	}
	return out
}

// Evidence implements state.View.
func (m memory) Evidence(id state.IncidentID) (state.Evidence, bool) {
	if ev := m.board.Evidence(id); ev != nil {
		return *ev, true
	}
	return state.Evidence{}, false
}

// Alerts implements state.View.
func (m memory) Alerts(id state.IncidentID) []state.AlertRecord {
	if in := m.board.Incident(id); in != nil {
		return m.board.AlertsOf(in)
	}
	return nil
}

// Action implements state.View.
func (memory) Action(state.ActionID) (state.Action, bool) { return state.Action{}, false }

// ListActions implements state.View.
func (memory) ListActions(state.ActionQuery) state.ActionPage { return state.ActionPage{} }

// ActionsOf implements state.View.
func (memory) ActionsOf(state.IncidentID) []state.Action { return nil }

// BegunActions implements state.View.
func (memory) BegunActions() []state.Action { return nil }

// Timeline implements state.View.
func (memory) Timeline(context.Context, state.IncidentID) ([]state.Entry, error) { return nil, nil }

// Halted implements state.View.
func (memory) Halted(string) (state.Halt, bool) { return state.Halt{}, false }

// Subscribe implements state.View. Nothing is ever sent.
func (memory) Subscribe(ctx context.Context) <-chan state.Entry {
	ch := make(chan state.Entry)
	context.AfterFunc(ctx, func() { close(ch) })
	return ch
}

// A pastCluster answers the guards' reads with the workers that the metrics of the past show. It
// knows no labels, owners, budgets and edits, so only guards that need none of them may ask. It
// refuses every write.
type pastCluster struct{ workers []state.Worker }

// Workload implements cluster.Reader. A rollout has the default limits of a Deployment: a quarter
// of the pods more, and a quarter less.
func (c *pastCluster) Workload(_ context.Context, ref cluster.Ref) (cluster.Workload, error) {
	w := cluster.Workload{Ref: ref}
	for _, p := range c.pods(ref.Namespace, ref.Name) {
		w.Replicas++
		if p.Ready {
			w.Ready++
		}
	}
	if w.Replicas == 0 {
		return w, fmt.Errorf("no worker of the pool was seen: %w", cluster.ErrNotFound)
	}
	w.Current, w.Updated, w.Available = w.Replicas, w.Replicas, w.Ready
	w.MaxUnavailable, w.MaxSurge = w.Replicas/4, (w.Replicas+3)/4
	return w, nil
}

// Pods implements cluster.Reader.
func (c *pastCluster) Pods(_ context.Context, w cluster.Workload) ([]cluster.Pod, error) {
	return c.pods(w.Namespace, w.Name), nil
}

// Pod implements cluster.Reader.
func (c *pastCluster) Pod(_ context.Context, namespace, name string) (cluster.Pod, error) {
	for _, w := range c.workers {
		if w.Namespace == namespace && w.Pod == name {
			return podOf(w), nil
		}
	}
	return cluster.Pod{}, fmt.Errorf("pod %s/%s was not seen: %w", namespace, name, cluster.ErrNotFound)
}

// Namespace implements cluster.Reader.
func (*pastCluster) Namespace(_ context.Context, name string) (cluster.Namespace, error) {
	return cluster.Namespace{Name: name}, nil
}

func (c *pastCluster) pods(namespace, pool string) []cluster.Pod {
	var out []cluster.Pod
	for _, w := range c.workers {
		if w.Namespace == namespace && w.Pool == pool && w.Pod != "" {
			out = append(out, podOf(w))
		}
	}
	return out
}

func podOf(w state.Worker) cluster.Pod {
	return cluster.Pod{Namespace: w.Namespace, Name: w.Pod, UID: w.UID, Ready: w.Ready, Node: w.Node}
}

// PatchWorkload implements cluster.Writer.
func (*pastCluster) PatchWorkload(context.Context, cluster.Ref, []byte, bool) (cluster.Workload, error) {
	return cluster.Workload{}, errPast
}

// PatchPod implements cluster.Writer.
func (*pastCluster) PatchPod(context.Context, string, string, []byte, bool) (cluster.Pod, error) {
	return cluster.Pod{}, errPast
}

// Evict implements cluster.Writer.
func (*pastCluster) Evict(context.Context, string, string, string, bool) error { return errPast }

var errPast = fmt.Errorf("a backtest writes nothing: %w", cluster.ErrForbidden)
