package web

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"paramedic/state"
)

// A Fleet is the health of every pool at one moment. A status is healthy, warning, critical or
// unknown. What was not measured is unknown, never healthy.
type Fleet struct {
	At      time.Time
	Overall string
	Pools   []Pool
	Missing []state.Missing // signals that could not be read
}

// A Pool is one workload's health.
type Pool struct {
	Cluster, Namespace, Name, Model string

	Workers int // engines: the pods of a parallel group count as one
	Pods    int
	Role    string   // prefill or decode, of a disaggregated model
	Owner   string   // the resource that created the pool, as kind/name
	Routes  []string // the sources of its requests, as kind/name
	Running *float64 // requests; nil if not measured
	Overall string
	Checks  []PoolCheck

	Pathologies []Pathology
}

// A Pathology is a known pattern of several signals that a pool shows.
type Pathology struct {
	Title    string
	Text     string // the values that matched
	PointsTo []state.Cause
}

// A PoolCheck is one question about a pool with its worst value.
type PoolCheck struct {
	Name   string // gpu, kv_cache, latency, errors, queue
	Status string
	Signal string
	Value  *float64 // nil if it was not measured
	Unit   string
	Pod    string // of the worst value
	Note   string // why this value has an unusual status
}

type fleetData struct {
	Fleet
	Missing []missingGroup
	Missed  int
	Asked   bool // a source of the fleet's health exists
	Failed  bool // … and failed
	Cards   []poolCard
}

// A poolCard is a pool's health with the workers that the newest evidence of an incident named.
type poolCard struct {
	Pool
	Seen *poolEvidence
}

// poolEvidence holds what the newest evidence contains about one workload.
type poolEvidence struct {
	Kind     string
	Model    string
	Ready    int
	Workers  []worker
	At       time.Time
	Incident state.Incident
	Open     bool
}

type worker struct {
	state.Worker
	Running, Waiting, KV *float64
	Broken               bool
}

type poolKey struct{ cluster, namespace, name string }

// fleet shows every pool's health now, and the workers that evidence has named. These are no
// inventory: Paramedic reads single workers only during an incident, and the page shows that.
func (h *Handler) fleet(r *http.Request) (view, error) {
	var d fleetData
	if h.cfg.Fleet != nil {
		d.Asked = true
		var err error
		if d.Fleet, err = h.cfg.Fleet(r.Context()); err != nil {
			h.cfg.Logger.WarnContext(r.Context(), "the fleet's health cannot be read", "err", err)
			d.Failed = true
		}
	}
	d.Missing, d.Missed = h.missing(nil, d.Fleet.Missing)
	named := h.seenPools()
	for _, p := range d.Pools {
		key := poolKey{p.Cluster, p.Namespace, p.Name}
		d.Cards = append(d.Cards, poolCard{Pool: p, Seen: named[key]})
		delete(named, key)
	}
	for key, s := range named {
		d.Cards = append(d.Cards, poolCard{Pool: Pool{Cluster: key.cluster, Namespace: key.namespace, Name: key.name,
			Model: s.Model, Workers: s.engines(), Pods: len(s.Workers), Overall: "unknown"}, Seen: s})
	}
	slices.SortFunc(d.Cards, func(a, b poolCard) int {
		return cmp.Or(healthRank(a.Overall)-healthRank(b.Overall), cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return view{page: "fleet", title: "Fleet", nav: "fleet", about: everything, data: d}, nil
}

// Folds reports whether there are too many missing signals to list all of them.
func (d fleetData) Folds() bool { return d.Missed > state.FewMissing }

// healthRank orders pools by urgency.
func healthRank(status string) int {
	switch status {
	case "critical":
		return 0
	case "warning":
		return 1
	case "healthy":
		return 3
	}
	return 2
}

// mostSeen bounds the number of open incidents, and of resolved ones, whose evidence a fleet page
// reads.
const mostSeen = 100

// seenPools returns, by pool, the workers that the newest evidence of a recent incident named.
func (h *Handler) seenPools() map[poolKey]*poolEvidence {
	pools := map[poolKey]*poolEvidence{}
	recent := h.cfg.View.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents, Limit: mostSeen}).Incidents
	recent = append(recent,
		h.cfg.View.ListIncidents(state.IncidentQuery{Which: state.ResolvedIncidents, Limit: mostSeen}).Incidents...)
	for _, in := range recent {
		ev, ok := h.cfg.View.Evidence(in.ID)
		if !ok {
			continue
		}
		for _, w := range ev.Workers {
			key := poolKey{in.Cluster, w.Namespace, w.Pool}
			p := pools[key]
			if p == nil || ev.At.After(p.At) {
				p = &poolEvidence{Kind: w.PoolKind, Model: w.Model, At: ev.At, Incident: in, Open: in.Open()}
				pools[key] = p
			}
			if p.Incident.ID == in.ID {
				p.add(w, ev, in)
			}
		}
	}
	for _, p := range pools {
		slices.SortFunc(p.Workers,
			func(a, b worker) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Pod, b.Pod)) })
	}
	return pools
}

// engines returns the number of workers that the pods form.
func (p *poolEvidence) engines() int {
	of := map[string]bool{}
	for _, w := range p.Workers {
		of[cmp.Or(w.EngineKey(), w.Instance)] = true
	}
	return len(of)
}

func (p *poolEvidence) add(w state.Worker, ev state.Evidence, in state.Incident) {
	row := worker{Worker: w, Broken: in.Open() && slices.Contains(in.Scope.Pods, w.Pod)}
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
	if w.Ready {
		p.Ready++
	}
	p.Workers = append(p.Workers, row)
}
