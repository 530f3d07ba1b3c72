package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
	"paramedic/lab/drill"
	simulated "paramedic/lab/engine"
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/rules/enrich/prometheus"
	"paramedic/state"
)

const (
	before  = 70 * time.Minute // healthy, before the scenario starts
	watched = 5 * time.Minute  // of that time, with alert rules
	sparse  = time.Minute      // scrape interval without rules
)

// A result is the outcome of a run.
type result struct {
	Seed       uint64     `json:"seed"`
	Fault      string     `json:"fault"`
	Story      string     `json:"story"`          // of what happens
	Told       string     `json:"told,omitempty"` // the story's ID
	True       string     `json:"true,omitempty"` // the cause by its definition
	Decoy      bool       `json:"decoy,omitempty"`
	Convention convention `json:"convention"`
	// Outcome is "right", "unknown", "silent" (no alert fired), or the wrong cause.
	Outcome    string   `json:"outcome"`
	Confidence float64  `json:"confidence"`
	Likely     string   `json:"likely,omitempty"` // of an unknown verdict
	Incidents  int      `json:"incidents"`
	Wrong      []string `json:"wrong,omitempty"` // causes named at the end that are not there
	Paged      bool     `json:"paged"`
	Alerts     int      `json:"alerts"`
	// PagedHealthy counts the pages about pools that are healthy.
	PagedHealthy int      `json:"paged_healthy,omitempty"`
	Harmful      []string `json:"harmful,omitempty"` // advice that was given, finally or not
	Verdicts     []named  `json:"verdicts,omitempty"`
	// Moment is that of the verdict about the fault, packed.
	Moment []byte `json:"moment,omitempty"`
	trace  string
}

// A run plays one fault on one fleet.
type run struct {
	*score.Bot
	triage  *recorder
	advice  *score.Adviser
	world   *world
	ruler   *ruler
	scraper *engine.Client // nil: evidence comes through PromQL

	advised map[state.Cause][]string // the treatments that verdicts advised, at any time
	beside  map[state.Cause][]string // those of verdicts about healthy fleets
	load    load

	evidence bool // describe incidents with their evidence
}

// play plays a run and returns its outcome.
func (k *knowledge) play(ctx context.Context, t task) (result, error) {
	fault, _, _ := strings.Cut(t.fault, "/")
	res := result{Seed: t.seed, Fault: fault, Convention: t.convention}
	s, err := scenario(t.fault, t.seed, t.convention)
	if err != nil {
		return res, err
	}
	res.Story, res.Told = s.Story, s.Name
	r, err := newRun(k, s, t)
	if err != nil {
		return res, err
	}
	if err := r.toEnd(ctx, s.Length); err != nil {
		return res, err
	}
	res.True = truth(fault, &r.load, r.world.fleet.Start().Add(s.Faults[0].At), r.lastVerdict())
	res.Decoy = slices.Contains(lab.Decoys(), res.True)
	return res, r.judge(&res)
}

func newRun(k *knowledge, s drill.Scenario, t task) (*run, error) {
	c, seed := t.convention, t.seed
	rec := &recorder{Rules: rules.Rules{Catalog: k.catalog}, verdicts: map[state.IncidentID][]recorded{}}
	bot, err := score.NewBot(rec)
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	loaded := rulesOf(c, cmp.Or(s.Config.Kind, simulated.VLLM))
	if s.Nervous {
		loaded = append(loaded, nervousRules(cmp.Or(s.Config.Kind, simulated.VLLM))...)
	}
	want := wanted(k.signals, loaded)
	s.Config.Only = want
	fleet, err := s.Build()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	w := &world{convention: c, fleet: fleet, shown: map[*lab.Fleet]shown{}, store: newStore(want)}
	if w.neighbour, err = neighbour(c, s, seed); err != nil {
		return nil, err
	}
	a := newAPI(w.store)
	r := &run{evidence: k.evidence, Bot: bot, triage: rec, advice: k.advice, world: w, ruler: newRuler(loaded, a, dresser(c, seed)),
		advised: map[state.Cause][]string{}, beside: map[state.Cause][]string{}}
	r.At = fleet.Start()
	sources := enrich.Cluster{}
	if c["kubernetes"] != "none" {
		sources.Kubernetes = score.LastWords(func() []*lab.Fleet { return []*lab.Fleet{fleet} })
	}
	if c["source"] == "promql" {
		if err := w.scrapeYesterday(); err != nil {
			return nil, err
		}
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

// toEnd plays the run.
func (r *run) toEnd(ctx context.Context, length time.Duration) error {
	start := r.At
	interval, err := time.ParseDuration(r.world.convention["interval"])
	if err != nil {
		return fmt.Errorf("interval: %w", err)
	}
	const step = 5 * time.Second
	from := before - watched + ages[r.world.convention["age"]]
	for since := time.Duration(0); since <= length; since += step {
		r.At = start.Add(since)
		dense := since >= from
		if !dense && since%sparse != 0 {
			continue
		}
		r.world.eachFleet(func(f *lab.Fleet) { f.Advance(r.At) })
		if since >= before {
			r.load.see(r.world.fleet, r.At, dense)
		}
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
		r.look()
	}
	return ctx.Err()
}
