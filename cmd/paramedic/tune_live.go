package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/cmd/paramedic/tune"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/health"
	"paramedic/state"
)

// look reads the pools of the live fleet.
func (t *tuning) look(ctx context.Context) ([]tune.LivePool, error) {
	d := diagnosis{cli: t.cli, prometheus: t.prometheus, engines: t.engines, watch: t.watch}
	if err := d.addresses(); err != nil {
		return nil, err
	}
	if t.prometheus == "" && t.watch < time.Second {
		return nil, fmt.Errorf("--watch %s is too short: a rate needs two scrapes, at least 1s apart", t.watch)
	}
	cfg := config.Default()
	cluster := &cfg.Clusters[0]
	cluster.Prometheus.URL, cluster.Engines = t.prometheus, t.engines
	gather, scrapers, err := service.NewGatherer(cfg, service.GathererDeps{Logger: t.quietLogger(), Interval: time.Second})
	if err != nil {
		return nil, err
	}
	var unread []engine.Problem
	if len(scrapers) > 0 {
		if err := d.observe(ctx, scrapers); err != nil {
			return nil, err
		}
		for _, s := range scrapers {
			unread = append(unread, s.Problems()...)
		}
	}
	now := time.Now().UTC()
	all := gather.Gather(ctx, enrich.Request{Cluster: cluster.Name, Scope: state.Scope{Cluster: cluster.Name, Model: t.model}, Onset: now,
		Now: now})
	var out []tune.LivePool
	pools := survey.PoolsOfModel(health.Of(cluster.Name, all), all.Workers, t.model)
	if len(pools) == 0 {
		if err := (survey.Survey{Gather: gather, Cluster: cluster.Name, Now: now}).UnknownModel(ctx, t.model); err != nil {
			return nil, err
		}
	}
	for _, p := range pools {
		if p.Pool == "" && slices.ContainsFunc(pools, func(o health.Pool) bool {
			return o.Pool != "" && (p.Namespace == "" || o.Namespace == p.Namespace) &&
				(strings.EqualFold(o.Model, p.Model) || survey.ServesModel(o, all.Workers, p.Model))
		}) {
			continue // series that name only the model belong to the pool that serves it
		}
		ev := gather.Gather(ctx, enrich.Request{Cluster: cluster.Name, Scope: p.Scope(), Onset: now, Now: now, Signals: tune.LiveSignals})
		live := tune.NewLivePool(cmp.Or(p.Pool, p.Model), tune.EngineOf(ev.Workers, p.Namespace, p.Pool, p.Model), ev)
		if live.ReportsBlocks() {
			out = append(out, live)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no engine reports its number of KV blocks: %s", survey.MissingReasons(all.Missing, unread))
	}
	return out, nil
}
