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
	"paramedic/rules"
	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// tuneSignals are what tune reads of a live fleet.
var tuneSignals = []string{"kv_blocks_total", "kv_block_size", "max_num_seqs", "prompt_length_mean", "output_length_mean", "answer_limit_mean", "requests_running",
	"requests_waiting", "kv_usage", "preemption_rate", "generation_tokens_rate", "ttft_p95", "itl_p95", "e2e_p95"}

// A livePool is a pool as it runs now.
type livePool struct {
	name   string
	engine tuneEngine
	read   map[string]livePoolSignal
}

type livePoolSignal struct {
	min, max, mean float64
	unit           string
}

// look reads the live fleet.
func (t *tuning) look(ctx context.Context) ([]livePool, error) {
	d := diagnosis{cli: t.cli, prometheus: t.prometheus, engines: t.engines, watch: t.watch}
	if err := d.addresses(); err != nil {
		return nil, err
	}
	if t.prometheus == "" && t.watch < time.Second {
		return nil, fmt.Errorf("--watch %s is too short: rates need two looks, at least 1s apart", t.watch)
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
	all := gather.Gather(ctx, enrich.Request{Cluster: cluster.Name, Scope: state.Scope{Cluster: cluster.Name, Model: t.model}, Onset: now, Now: now})
	var out []livePool
	pools := survey.PoolsOfModel(rules.Health(cluster.Name, all), all.Workers, t.model)
	if len(pools) == 0 {
		if err := (survey.Survey{Gather: gather, Cluster: cluster.Name, Now: now}).UnknownModel(ctx, t.model); err != nil {
			return nil, err
		}
	}
	for _, p := range pools {
		if p.Pool == "" && slices.ContainsFunc(pools, func(o rules.PoolHealth) bool {
			return o.Pool != "" && (p.Namespace == "" || o.Namespace == p.Namespace) && (strings.EqualFold(o.Model, p.Model) || survey.ServesModel(o, all.Workers, p.Model))
		}) {
			continue // series that name the model only are of the pool that serves it
		}
		ev := gather.Gather(ctx, enrich.Request{Cluster: cluster.Name, Scope: p.Scope(), Onset: now, Now: now, Signals: tuneSignals})
		live := newLivePool(cmp.Or(p.Pool, p.Model), ev)
		live.engine = tuneEngineOf(engineOfPool(ev.Workers, p))
		if live.read["kv_blocks_total"].min > 0 {
			out = append(out, live)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no engine there tells how many KV blocks it has: %s", survey.MissingReasons(all.Missing, unread))
	}
	return out, nil
}

// engineOfPool is the engine of a pool's workers; empty where none tells, or they differ.
func engineOfPool(workers []state.Worker, p rules.PoolHealth) string {
	engine := ""
	for _, w := range workers {
		if w.Engine == "" || w.Namespace != p.Namespace || w.Pool != p.Pool || w.Pool == "" && !strings.EqualFold(w.Model, p.Model) {
			continue
		}
		if engine != "" && engine != w.Engine {
			return ""
		}
		engine = w.Engine
	}
	return engine
}

// newLivePool sums the samples up: the pool's own where there is one, else over its workers.
func newLivePool(name string, ev state.Evidence) livePool {
	p := livePool{name: name, read: map[string]livePoolSignal{}}
	count, own := map[string]float64{}, map[string]bool{}
	for _, s := range ev.Samples {
		if own[s.Signal] {
			continue
		}
		v := livePoolSignal{min: s.Value, max: s.Value, mean: s.Value, unit: s.Unit}
		if s.Entity.Pod == "" && s.Entity.Instance == "" && s.Entity.GPU == "" {
			own[s.Signal] = true
			p.read[s.Signal] = v
			continue
		}
		n := count[s.Signal]
		if have, ok := p.read[s.Signal]; ok {
			v = livePoolSignal{min: min(have.min, s.Value), max: max(have.max, s.Value), mean: (have.mean*n + s.Value) / (n + 1), unit: s.Unit}
		}
		p.read[s.Signal] = v
		count[s.Signal] = n + 1
	}
	return p
}

// advise computes the settings from what the engines tell; what the command line says of lengths
// wins.
func (p livePool) advise(known tuneSheet, u useCase) tuneAdvice {
	a := tuneAdvice{Pool: p.name, Engine: p.engine.name, UseCase: u, Model: known.model, Hardware: known.hardware, Settings: []tuneSetting{}, Facts: []tuneFact{},
		Targets: []tuneTarget{}, Notes: []string{}}
	if size := int(p.read["kv_block_size"].max); size > 0 {
		known.blockSize = size
	}
	if known.hardware != nil && known.model != nil && known.model.WeightBytes > 0 {
		a.Facts = known.memory()
	}
	pool := tunePool{engine: p.engine, blocks: int(p.read["kv_blocks_total"].min), tuneLoad: known.tuneLoad,
		now: int(p.read["max_num_seqs"].max), running: int(p.read["requests_running"].max)}
	waiting, seen := p.read["requests_waiting"]
	pool.idle = seen && waiting.max == 0
	itl, seen := p.read["itl_p95"]
	pool.inTime = seen && itl.max <= u.ITL
	a.Facts = append(a.Facts, tuneFact{"KV cache", known.cache(pool.blocks), "the engine says so; the smallest of its workers"})
	prompt, answer := p.read["prompt_length_mean"].mean, p.read["output_length_mean"].mean
	if prompt > 0 && answer > 0 {
		a.Facts = append(a.Facts, tuneFact{"Request", fmt.Sprintf("%.0f tokens and an answer of %.0f", prompt, answer), "mean of those that finished lately"})
		if pool.average == 0 {
			pool.tuneLoad = tuneLoad{average: prompt + answer, prompt: prompt, answer: answer}
		}
	}
	if limit := p.read["answer_limit_mean"].mean; limit > 0 {
		a.Facts = append(a.Facts, tuneFact{"Answers may have", fmt.Sprintf("%.0f tokens", limit), "mean max_tokens of those that finished lately: what an answer can grow to"})
	}
	for _, m := range []struct{ signal, name string }{{"requests_running", "Running on one worker"}, {"kv_usage", "KV cache in use"}, {"preemption_rate", "Preemptions"}} {
		if s, ok := p.read[m.signal]; ok {
			a.Facts = append(a.Facts, tuneFact{m.name, state.FormatValue(s.max, s.unit), "measured, the highest"})
		}
	}
	advice, err := known.settings(a, pool)
	advice.Targets = p.targets(u)
	advice.Finding = advice.Finding || advice.missed()
	if err != nil {
		advice.Notes = append(advice.Notes, "No request finished while we looked, so their lengths are not known: "+err.Error()+".")
		return advice
	}
	if known.model == nil && p.engine.name == tuneEngines["vllm"].name {
		advice.Notes = append(advice.Notes, "Every block is taken to hold tokens of all layers. Of a model some of whose layers keep a window or a state (Gemma 3, gpt-oss, Qwen3-Next), say so with --model-config: its requests take more blocks.")
	}
	advice.Notes = append(advice.Notes, p.engine.notes...)
	return advice
}
