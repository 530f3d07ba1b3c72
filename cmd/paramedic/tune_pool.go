package main

import (
	"fmt"

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

// newLivePool sums the samples up: the pool's own where there is one, else over its workers.
func newLivePool(name, engine string, ev state.Evidence) livePool {
	p := livePool{name: name, engine: tuneEngineOf(engine), read: map[string]livePoolSignal{}}
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

// reportsBlocks reports whether every worker exports how many KV blocks it has.
func (p livePool) reportsBlocks() bool { return p.read["kv_blocks_total"].min > 0 }

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

// targets judges what the live engines give.
func (p livePool) targets(u useCase) []tuneTarget {
	out := []tuneTarget{p.judged(tuneTarget{Name: "First token, p95", Want: u.TTFT, Unit: "s", given: u.ttftGiven}, "ttft_p95"),
		p.judged(tuneTarget{Name: "Time between tokens, p95", Want: u.ITL, Unit: "s", given: u.itlGiven}, "itl_p95"),
		p.judged(tuneTarget{Name: "Whole answer, p95", Want: u.E2E, Unit: "s", given: u.e2eGiven}, "e2e_p95")}
	if out[0].Verdict == targetMissed {
		out[0].Why = p.whyFirst()
	}
	if out[1].Verdict == targetMissed {
		out[1].Why = "fewer sequences at a time or smaller chunks make each token faster"
	}
	if out[2].Verdict == targetMissed {
		out[2].Why = p.whyWhole(out[2].Want, out[0], out[1])
	}
	if u.Throughput <= 0 {
		return out
	}
	t := tuneTarget{Name: "Generated tokens", Want: u.Throughput, Unit: "1/s", Verdict: targetUnknown, Why: "not measured", given: true}
	if made, ok := p.read["generation_tokens_rate"]; ok {
		switch {
		case made.mean >= t.Want:
			t.is(made.mean, targetMet, "mean of its workers")
		case p.read["requests_waiting"].max == 0:
			t.is(made.mean, targetUnknown, "mean of its workers; nothing waits, so that it says how much is asked for and not what they can")
		default:
			t.is(made.mean, targetMissed, "mean of its workers, while requests wait")
		}
	}
	return append(out, t)
}

func (p livePool) judged(t tuneTarget, signal string) tuneTarget {
	v, ok := p.read[signal]
	switch {
	case !ok:
		t.Verdict, t.Why = targetUnknown, "no request told it while we looked"
	case v.max > t.Want:
		t.is(v.max, targetMissed, "")
	default:
		t.is(v.max, targetMet, "measured, the slowest worker's")
	}
	return t
}

// whyFirst says where the time to first token goes.
func (p livePool) whyFirst() string {
	waiting, kv := p.read["requests_waiting"].max, p.read["kv_usage"].max
	switch {
	case waiting > 0 && kv > 0.9:
		return "requests wait for KV cache: fewer at a time, shorter ones, or more replicas"
	case waiting > 0:
		return "requests wait while the KV cache has room: slots or prefill are what they wait for"
	}
	return "with no queue it is prefill: longer prompts than planned, or fewer of them found in the cache"
}

// whyWhole says where the time of a whole answer goes.
func (p livePool) whyWhole(want float64, first, between tuneTarget) string {
	switch answer := p.read["output_length_mean"].mean; {
	case first.Value != nil && *first.Value > want/2:
		return "its first token is late already: " + p.whyFirst()
	case between.Verdict == targetMissed:
		return "its tokens come slowly: " + between.Why
	case answer > 0 && between.Value != nil && answer**between.Value > want/2:
		return fmt.Sprintf("answers of %.0f tokens in the mean take so long at this rate: shorter ones (max_tokens), or faster tokens", answer)
	}
	return "first token and time between tokens do not tell why; the longest answers (max_tokens) are what a p95 is made of"
}
