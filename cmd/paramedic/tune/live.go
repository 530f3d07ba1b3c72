package tune

import (
	"fmt"

	"paramedic/state"
)

// LiveSignals lists the signals that tune reads from a live fleet.
var LiveSignals = []string{"kv_blocks_total", "kv_block_size", "max_num_seqs", "prompt_length_mean",
	"output_length_mean", "answer_limit_mean", "requests_running",
	"requests_waiting", "kv_usage", "preemption_rate", "generation_tokens_rate", "ttft_p95", "itl_p95", "e2e_p95"}

// A LivePool has the current values of a pool.
type LivePool struct {
	name   string
	engine engineFlags
	read   map[string]liveSignal
}

type liveSignal struct {
	min, max, mean float64
	unit           string
}

// NewLivePool aggregates samples: it takes the pool's own if it has one, else it aggregates those
// of its workers.
func NewLivePool(name, engine string, ev state.Evidence) LivePool {
	p := LivePool{name: name, engine: engineOf(engine), read: map[string]liveSignal{}}
	count, own := map[string]float64{}, map[string]bool{}
	for _, s := range ev.Samples {
		if own[s.Signal] {
			continue
		}
		v := liveSignal{min: s.Value, max: s.Value, mean: s.Value, unit: s.Unit}
		if s.Entity.Pod == "" && s.Entity.Instance == "" && s.Entity.GPU == "" {
			own[s.Signal] = true
			p.read[s.Signal] = v
			continue
		}
		n := count[s.Signal]
		if have, ok := p.read[s.Signal]; ok {
			v = liveSignal{min: min(have.min, s.Value), max: max(have.max, s.Value),
				mean: (have.mean*n + s.Value) / (n + 1), unit: s.Unit}
		}
		p.read[s.Signal] = v
		count[s.Signal] = n + 1
	}
	return p
}

// ReportsBlocks reports whether every worker exports how many KV blocks it has.
func (p LivePool) ReportsBlocks() bool { return p.read["kv_blocks_total"].min > 0 }

// Advise computes the settings from what the engines export. Lengths of the command line win.
func (p LivePool) Advise(known Sheet, u UseCase) Advice {
	a := Advice{Pool: p.name, Engine: p.engine.name, UseCase: u, Model: known.model, Hardware: known.hardware,
		Settings: []Setting{}, Facts: []Fact{},
		Targets: []Target{}, Notes: []string{}}
	if size := int(p.read["kv_block_size"].max); size > 0 {
		known.blockSize = size
	}
	if known.hardware != nil && known.model != nil && known.model.WeightBytes > 0 {
		a.Facts = known.memory()
	}
	pool := poolInput{engine: p.engine, blocks: int(p.read["kv_blocks_total"].min), load: known.load,
		now: int(p.read["max_num_seqs"].max), running: int(p.read["requests_running"].max)}
	waiting, seen := p.read["requests_waiting"]
	pool.idle = seen && waiting.max == 0
	itl, seen := p.read["itl_p95"]
	pool.inTime = seen && itl.max <= u.ITL
	a.Facts = append(a.Facts, Fact{"KV cache", known.cache(pool.blocks),
		"the engine reports it; the smallest worker"})
	prompt, answer := p.read["prompt_length_mean"].mean, p.read["output_length_mean"].mean
	if prompt > 0 && answer > 0 {
		a.Facts = append(a.Facts, Fact{"Request", fmt.Sprintf("%.0f tokens and an answer of %.0f", prompt, answer),
			"mean of recently finished requests"})
		if pool.average == 0 {
			pool.load = load{average: prompt + answer, prompt: prompt, answer: answer}
		}
	}
	if limit := p.read["answer_limit_mean"].mean; limit > 0 {
		a.Facts = append(a.Facts, Fact{"Answers may have", fmt.Sprintf("%.0f tokens", limit),
			"mean max_tokens of recently finished requests: the longest possible answers"})
	}
	for _, m := range []struct{ signal, name string }{{"requests_running", "Running on one worker"},
		{"kv_usage", "KV cache in use"}, {"preemption_rate", "Preemptions"}} {
		if s, ok := p.read[m.signal]; ok {
			a.Facts = append(a.Facts, Fact{m.name, state.FormatValue(s.max, s.unit), "measured, the highest worker"})
		}
	}
	advice, err := known.settings(a, pool)
	advice.Targets = p.targets(u)
	advice.Finding = advice.Finding || advice.missed()
	if err != nil {
		advice.Notes = append(advice.Notes, "No request finished during the scrapes, so their lengths are not known: "+
			err.Error()+".")
		return advice
	}
	if known.model == nil && p.engine.name == engines["vllm"].name {
		advice.Notes = append(advice.Notes,
			"This assumes that every block holds tokens of all layers. If some layers keep a window or a "+
				"state (Gemma 3, gpt-oss, Qwen3-Next), add --model-config: requests of such a model take more blocks.")
	}
	advice.Notes = append(advice.Notes, p.engine.notes...)
	return advice
}

// targets compares the measured values with the targets.
func (p LivePool) targets(u UseCase) []Target {
	out := []Target{p.judged(Target{Name: "First token, p95", Want: u.TTFT, Unit: "s", given: u.ttftGiven}, "ttft_p95"),
		p.judged(Target{Name: "Time between tokens, p95", Want: u.ITL, Unit: "s", given: u.itlGiven}, "itl_p95"),
		p.judged(Target{Name: "Whole answer, p95", Want: u.E2E, Unit: "s", given: u.e2eGiven}, "e2e_p95")}
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
	t := Target{Name: "Generated tokens", Want: u.Throughput, Unit: "1/s", Verdict: targetUnknown, Why: "not measured",
		given: true}
	if made, ok := p.read["generation_tokens_rate"]; ok {
		switch {
		case made.mean >= t.Want:
			t.is(made.mean, targetMet, "mean of its workers")
		case p.read["requests_waiting"].max == 0:
			t.is(made.mean, targetUnknown,
				"mean of its workers; no request waits, so this shows the demand and not the capacity")
		default:
			t.is(made.mean, targetMissed, "mean of its workers, while requests wait")
		}
	}
	return append(out, t)
}

func (p LivePool) judged(t Target, signal string) Target {
	v, ok := p.read[signal]
	switch {
	case !ok:
		t.Verdict, t.Why = targetUnknown, "no request reported it during the scrapes"
	case v.max > t.Want:
		t.is(v.max, targetMissed, "")
	default:
		t.is(v.max, targetMet, "measured, slowest worker")
	}
	return t
}

// whyFirst returns the reason of a late first token.
func (p LivePool) whyFirst() string {
	waiting, kv := p.read["requests_waiting"].max, p.read["kv_usage"].max
	switch {
	case waiting > 0 && kv > 0.9:
		return "requests wait for KV cache: fewer at a time, shorter requests or more replicas help"
	case waiting > 0:
		return "requests wait although the KV cache has room: they wait for slots or prefill"
	}
	return "there is no queue, so prefill is slow: longer prompts than planned, or fewer cache hits"
}

// whyWhole returns the reason of a late answer.
func (p LivePool) whyWhole(want float64, first, between Target) string {
	switch answer := p.read["output_length_mean"].mean; {
	case first.Value != nil && *first.Value > want/2:
		return "the first token is late: " + p.whyFirst()
	case between.Verdict == targetMissed:
		return "tokens are slow: " + between.Why
	case answer > 0 && between.Value != nil && answer**between.Value > want/2:
		return fmt.Sprintf("answers of %.0f tokens on average take this long: shorter ones (max_tokens) or faster tokens "+
			"help", answer)
	}
	return "first token and time between tokens do not explain it: the longest answers do, so limit " +
		"max_tokens"
}
