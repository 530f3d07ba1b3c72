package web

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"paramedic/state"
)

type indexData struct {
	Open, Resolved []incidentRow
	More           int // resolved incidents that are not listed
	Waiting        []actionCard
}

type incidentRow struct {
	state.Incident
	Verdict bool
	Waiting int // actions that wait for approval
}

// maxResolved is how many resolved incidents the front page lists.
const maxResolved = 100

// index lists the incidents: open ones by urgency, then the resolved ones, newest first.
func (h *Handler) index(*http.Request) (view, error) {
	var d indexData
	waiting := map[state.IncidentID]int{}
	for _, a := range h.cfg.View.Actions() {
		if a.State == state.AwaitingApproval {
			waiting[a.Incident]++
		}
	}
	for _, in := range h.cfg.View.Incidents() {
		row := incidentRow{Incident: in, Verdict: !in.DiagnosedAt.IsZero(), Waiting: waiting[in.ID]}
		switch {
		case in.Open():
			d.Open = append(d.Open, row)
		case len(d.Resolved) < maxResolved:
			d.Resolved = append(d.Resolved, row)
		default:
			d.More++
		}
	}
	slices.SortStableFunc(d.Open, func(a, b incidentRow) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.StartedAt.Compare(a.StartedAt))
	})
	return view{page: "index", title: "Incidents", nav: "incidents", data: d}, nil
}

func (h *Handler) playbooks(*http.Request) (view, error) {
	var list []Playbook
	if h.cfg.Playbooks != nil {
		for _, id := range h.cfg.Playbooks() {
			if pb, ok := h.cfg.Playbook(id, nil, nil); ok {
				list = append(list, pb)
			}
		}
	}
	return view{page: "playbooks", title: "Playbooks", nav: "playbooks", data: list}, nil
}

func (h *Handler) playbook(r *http.Request) (view, error) {
	pb, ok := h.cfg.Playbook(r.PathValue("id"), nil, nil)
	if !ok {
		return view{}, notFound("There is no such playbook.")
	}
	return view{page: "playbook", title: pb.Title, nav: "playbooks", data: pb}, nil
}

// A pool is what the newest evidence says about one workload.
type pool struct {
	Cluster, Namespace, Name, Kind, Model string
	Ready, Known                          int
	Workers                               []worker
	At                                    time.Time
	Incident                              state.Incident
	Open                                  bool
}

type worker struct {
	state.Worker
	Running, Waiting, KV *float64
	Broken               bool
}

// fleet shows the workers that evidence has named. Paramedic looks when there is an incident, so it is no inventory, and says so.
func (h *Handler) fleet(*http.Request) (view, error) {
	pools := map[[3]string]*pool{}
	for _, in := range h.cfg.View.Incidents() { // newest first
		ev, ok := h.cfg.View.Evidence(in.ID)
		if !ok {
			continue
		}
		for _, w := range ev.Workers {
			key := [3]string{in.Cluster, w.Namespace, w.Pool}
			p := pools[key]
			if p == nil || ev.At.After(p.At) {
				p = &pool{Cluster: in.Cluster, Namespace: w.Namespace, Name: w.Pool, Kind: w.PoolKind, Model: w.Model, At: ev.At, Incident: in, Open: in.Open()}
				pools[key] = p
			}
			if p.Incident.ID != in.ID {
				continue
			}
			p.add(w, ev, in)
		}
	}
	var out []*pool
	for _, p := range pools {
		slices.SortFunc(p.Workers, func(a, b worker) int { return cmp.Compare(a.Pod, b.Pod) })
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return view{page: "fleet", title: "Fleet", nav: "fleet", data: out}, nil
}

func (p *pool) add(w state.Worker, ev state.Evidence, in state.Incident) {
	row := worker{Worker: w, Broken: slices.Contains(in.Scope.Pods, w.Pod)}
	for _, s := range ev.Samples {
		if s.Entity.Pod != w.Pod || !finite(s.Value) {
			continue
		}
		v := s.Value
		switch s.Signal {
		case "requests_running":
			row.Running = &v
		case "requests_waiting":
			row.Waiting = &v
		case "kv_usage":
			row.KV = &v
		}
	}
	p.Known++
	if w.Ready {
		p.Ready++
	}
	p.Workers = append(p.Workers, row)
}
