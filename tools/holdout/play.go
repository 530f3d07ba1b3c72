package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/enrich/prometheus"
	"paramedic/state"
)

const (
	before = 70 * time.Minute // healthy, before the scenario starts
	sparse = time.Minute      // scrape interval of that time
)

// A result is the outcome of a run.
type result struct {
	Seed       uint64     `json:"seed"`
	Fault      string     `json:"fault"`
	Decoy      bool       `json:"decoy,omitempty"`
	Convention convention `json:"convention"`
	// Outcome is "right", "unknown", "silent" (no alert fired), or the wrong cause.
	Outcome    string   `json:"outcome"`
	Confidence float64  `json:"confidence"`
	Likely     string   `json:"likely,omitempty"`
	Incidents  int      `json:"incidents"`
	Wrong      []string `json:"wrong,omitempty"` // causes named at the end that are not there
	Paged      bool     `json:"paged"`
	Alerts     int      `json:"alerts"`
	// PagedHealthy counts the pages about pools that are healthy.
	PagedHealthy int      `json:"paged_healthy,omitempty"`
	Harmful      []string `json:"harmful,omitempty"` // advice that was given, finally or not
	Verdicts     []named  `json:"verdicts,omitempty"`
	// Sums are those of the incident about the fault: of each cause, the terms that its score adds.
	// Shared holds the weights of terms without a cause.
	Sums    []sum              `json:"sums,omitempty"`
	Shared  map[string]float64 `json:"shared,omitempty"`
	Edition string             `json:"edition"` // of the catalogue
	trace   string
}

// A run plays one fault on one fleet.
type run struct {
	*score.Bot
	triage  *recorder
	advice  *score.Adviser
	world   *world
	ruler   *ruler
	scraper *engine.Client // nil: evidence comes through PromQL

	called  map[state.IncidentID]state.Cause // the last verdict of each incident
	harmful []string
}

// play plays a run and returns its outcome.
func (k *knowledge) play(ctx context.Context, t task) (result, error) {
	res := result{Seed: t.seed, Fault: t.fault, Convention: t.convention, Decoy: slices.Contains(lab.Decoys(), t.fault),
		Edition: k.edition}
	s, err := scenario(t.fault, t.seed, t.convention)
	if err != nil {
		return res, err
	}
	r, err := newRun(k, s, t.seed, t.convention)
	if err != nil {
		return res, err
	}
	if err := r.toEnd(ctx, s.Length, &res); err != nil {
		return res, err
	}
	r.judge(&res)
	return res, nil
}

// scenario returns the scenario of a fault or decoy under a convention.
func scenario(fault string, seed uint64, c convention) (lab.Scenario, error) {
	make := lab.NewScenario
	if slices.Contains(lab.Decoys(), fault) {
		make = lab.NewDecoy
	}
	s, err := make(fault, seed)
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.Severity == 0 {
			f.Severity = 1
		}
		if !slices.Contains(lab.Decoys(), fault) {
			f.Severity *= map[string]float64{"weak": 0.8, "usual": 1, "strong": 1.3}[c["strength"]]
		}
		if c["onset"] == "ramp" {
			f.Shape, f.Ramp = lab.Gradual, 8*time.Minute
		}
	}
	if c["onset"] == "ramp" {
		s.Length += 8 * time.Minute
	}
	workers, err := strconv.Atoi(c["workers"])
	if err != nil {
		return s, fmt.Errorf("workers: %w", err)
	}
	s = s.Resize(workers)
	if c["traffic"] == "day" {
		s = s.Diurnal()
	}
	s = s.Later(before)
	kind, err := lab.ParseKind(c["engine"])
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	return s.As(kind), nil
}

func newRun(k *knowledge, s lab.Scenario, seed uint64, c convention) (*run, error) {
	rec := &recorder{rules.Rules{Catalog: k.catalog}, map[state.IncidentID][]recorded{}}
	bot, err := score.NewBot(rec)
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	fleet, err := s.Build()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	loaded := rulesOf(c, fleet.Config().Kind)
	w := &world{convention: c, fleet: fleet, shown: map[*lab.Fleet]shown{}, store: newStore(wanted(k.signals, loaded))}
	if w.neighbour, err = neighbour(c, s, seed); err != nil {
		return nil, err
	}
	a := newAPI(w.store)
	r := &run{Bot: bot, triage: rec, advice: k.advice, world: w, ruler: newRuler(loaded, a, clusterLabel(seed)),
		called: map[state.IncidentID]state.Cause{}}
	r.At = fleet.Start()
	sources := enrich.Cluster{}
	if c["kubernetes"] != "none" {
		sources.Kubernetes = score.LastWords(func() []*lab.Fleet { return []*lab.Fleet{fleet} })
	}
	if c["source"] == "promql" {
		sources.Prometheus, err = prometheus.New(prometheus.Config{URL: "http://prometheus:9090", Transport: a, Timeout: time.Minute})
		if err != nil {
			return nil, fmt.Errorf("prometheus: %w", err)
		}
	} else {
		r.scraper = engine.New(engine.Config{Signals: k.signals, Interval: 15 * time.Second, Clock: r.Bot, Timeout: time.Minute,
			Transport: newPages(w, k.signals), Discover: w.pageTargets})
		sources.Engines = r.scraper
	}
	r.Gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{score.Cluster: sources}, Signals: k.signals,
		Deadline: 5 * time.Minute,
		Log:      slog.New(slog.DiscardHandler)})
	return r, nil
}

// clusterLabel returns the cluster label of the alerts; every third Prometheus has none.
func clusterLabel(seed uint64) string {
	if seed%3 == 0 {
		return ""
	}
	return score.Cluster
}

// neighbour returns the healthy fleet of the convention, or nil.
func neighbour(c convention, s lab.Scenario, seed uint64) (*lab.Fleet, error) {
	if c["tenants"] != "elsewhere" && c["tenants"] != "beside" {
		return nil, nil
	}
	cfg := lab.Config{Seed: seed + 1, Kind: s.Config.Kind, Start: s.Config.Start, Pool: "chat-small", Model: "qwen-8b",
		Workers: 2, Index: 7, Namespace: s.Config.Namespace}
	if c["tenants"] == "elsewhere" {
		cfg.Namespace = "search"
	}
	f, err := lab.NewFleet(cfg)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return f, nil
}

// toEnd plays the run.
func (r *run) toEnd(ctx context.Context, length time.Duration, res *result) error {
	start := r.At
	interval, err := time.ParseDuration(r.world.convention["interval"])
	if err != nil {
		return fmt.Errorf("interval: %w", err)
	}
	const step = 5 * time.Second
	for since := time.Duration(0); since <= length; since += step {
		r.At = start.Add(since)
		dense := since >= before-5*time.Minute
		if !dense && since%sparse != 0 {
			continue
		}
		r.world.eachFleet(func(f *lab.Fleet) { f.Advance(r.At) })
		if !dense || since%interval == 0 {
			r.world.scrape(r.At)
		}
		if r.scraper != nil && (!dense || since%(15*time.Second) == 0) {
			r.scraper.Scrape(ctx)
		}
		if !dense || ctx.Err() != nil {
			continue
		}
		if since%(15*time.Second) == 0 {
			alerts, err := r.ruler.evaluate(ctx, r.At)
			if err != nil {
				return err
			}
			r.Receive(alerts)
		}
		if err := r.Step(ctx); err != nil {
			return fmt.Errorf("%s after the start: %w", since, err)
		}
		r.look(res)
	}
	return ctx.Err()
}
