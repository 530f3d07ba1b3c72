package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"paramedic/notify/web"
	"paramedic/rules/enrich"
	"paramedic/rules/health"
	"paramedic/state"
)

// A fleetHealth is the health of every pool.
type fleetHealth struct {
	At      time.Time       `json:"at"`
	Overall health.Status   `json:"overall"`
	Pools   []health.Pool   `json:"pools"`
	Missing []state.Missing `json:"missing"`
}

// A fleetCache keeps a health report for 15 s, so that concurrent readers cost one gathering.
type fleetCache struct {
	flight singleflight.Group
	last   atomic.Pointer[fleetHealth]
}

// fleetFresh is the largest age of a health report.
const fleetFresh = 15 * time.Second

// fleet returns the health for the API.
func (s *Service) fleet(ctx context.Context) (any, error) { return s.fleetHealth(ctx) }

// fleetHealth returns the health of every pool of every cluster, at most 15 s old. A reader that
// cancels does not cancel the gathering: others may wait for it, and it has its own deadline.
func (s *Service) fleetHealth(ctx context.Context) (*fleetHealth, error) {
	gathered := s.fleetCache.flight.DoChan("", func() (any, error) {
		if last := s.fleetCache.last.Load(); last == nil || s.deps.Clock.Now().Sub(last.At) >= fleetFresh {
			s.fleetCache.last.Store(s.gatherFleet(context.WithoutCancel(ctx)))
		}
		return nil, nil
	})
	select {
	case <-gathered:
		return s.fleetCache.last.Load(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the fleet's health: %w", ctx.Err())
	}
}

// gatherFleet asks all clusters at the same time, so that one that cannot be reached does not delay
// the others.
func (s *Service) gatherFleet(ctx context.Context) *fleetHealth {
	now := s.deps.Clock.Now()
	signals := append(health.SignalsOfCatalog(s.catalog), "pod_node") // tells whose page is at which address
	found := make([]state.Evidence, len(s.cfg.Clusters))
	var wg sync.WaitGroup
	for i, c := range s.cfg.Clusters {
		wg.Go(func() {
			found[i] = s.gather.Gather(ctx, enrich.Request{Cluster: c.Name, Scope: state.Scope{Cluster: c.Name},
				Onset: now, Now: now, Signals: signals})
		})
	}
	wg.Wait()
	out := &fleetHealth{At: now, Overall: health.Unknown, Pools: []health.Pool{}, Missing: []state.Missing{}}
	for i, ev := range found {
		out.Pools = append(out.Pools, MarkUnmeasured(health.OfCatalog(s.catalog, s.cfg.Clusters[i].Name, ev))...)
		out.Missing = append(out.Missing, ev.Missing...)
	}
	rank := map[health.Status]int{health.Healthy: 1, health.HealthWarning: 2, health.HealthCritical: 3}
	incidents := s.Keeper.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents,
		Match: func(in *state.Incident) bool { return in.Scope.Pool != "" }}).Incidents
	for i := range out.Pools {
		p := &out.Pools[i]
		if said := openTrouble(incidents, *p); rank[said] > rank[p.Overall] {
			p.Overall = said
		}
		if rank[p.Overall] > rank[out.Overall] {
			out.Overall = p.Overall
		}
	}
	return out
}

// HealthChecks lists the checks of a pool's health, in the order of display.
var HealthChecks = []string{"kv_cache", "latency", "errors", "queue", "gpu"}

// enoughChecks is the number of checks that need a value before a pool is called healthy. An idle
// engine exports its cache and its queue, but no latency.
const enoughChecks = 2

// MarkUnmeasured changes healthy pools to unknown if fewer than two of their checks have a value. A
// missing value must not read as health.
func MarkUnmeasured(pools []health.Pool) []health.Pool {
	for i, p := range pools {
		measured := 0
		for _, check := range HealthChecks {
			if p.Checks[check].Value != nil {
				measured++
			}
		}
		if p.Overall == health.Healthy && measured < enoughChecks {
			pools[i].Overall = health.Unknown
		}
	}
	return pools
}

// openTrouble returns the worst severity of the pool's open incidents. A hung engine's metrics may
// all be in bounds.
func openTrouble(incidents []state.Incident, p health.Pool) health.Status {
	worst := health.Unknown
	for _, in := range incidents {
		if !in.Open() || in.Cause() == state.BenignAlert || in.Cluster != p.Cluster || !in.ShowsIn(p.Namespace, p.Pool) {
			continue
		}
		switch in.Severity {
		case state.Critical:
			return health.HealthCritical
		case state.Warning:
			worst = health.HealthWarning
		}
	}
	return worst
}

// webFleet returns the health for the pages.
func (s *Service) webFleet(ctx context.Context) (web.Fleet, error) {
	health, err := s.fleetHealth(ctx)
	if err != nil {
		return web.Fleet{}, err
	}
	out := web.Fleet{At: health.At, Overall: string(health.Overall), Missing: health.Missing}
	for _, p := range health.Pools {
		pool := web.Pool{Cluster: p.Cluster, Namespace: p.Namespace, Name: p.Pool, Model: p.Model, Workers: p.Workers,
			Pods: p.Pods, Running: p.Running, Role: p.Role, Owner: p.Owner,
			Routes: p.Routes, Overall: string(p.Overall)}
		for _, name := range slices.Sorted(maps.Keys(p.Checks)) {
			c := p.Checks[name]
			pool.Checks = append(pool.Checks, web.PoolCheck{Name: name, Status: string(c.Status), Signal: c.Signal,
				Value: c.Value, Unit: c.Unit, Pod: c.Pod, Note: c.Note})
		}
		for _, x := range p.Pathologies {
			pool.Pathologies = append(pool.Pathologies,
				web.Pathology{Title: x.Title, Text: x.Text, PointsTo: x.PointsTo})
		}
		out.Pools = append(out.Pools, pool)
	}
	return out, nil
}
