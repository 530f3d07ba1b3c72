package tune

import (
	"fmt"
	"math"

	"paramedic/state"
)

// A Verdict is the state of a target.
type Verdict string

// The verdicts. A possible target is met as far as it is known: for example the first token on an
// idle worker, without a queue.
const (
	targetMet      Verdict = "met"
	targetPossible Verdict = "possible"
	targetMissed   Verdict = "missed"
	targetUnknown  Verdict = "unknown"
)

// A Target is one target with its estimated or measured value.
type Target struct {
	Name    string   `json:"name"`
	Want    float64  `json:"want"`
	Value   *float64 `json:"value"` // estimated, or measured; null: not known
	Unit    string   `json:"unit"`
	Verdict Verdict  `json:"verdict"`
	Why     string   `json:"why"`
	given   bool     // by the user: missing it is a finding
}

// targets compares the estimates with the targets, as far as the hardware's speed is known.
func (s Sheet) targets(u UseCase, p poolInput, seqs, chunk int) []Target {
	out := []Target{
		{Name: "First token", Want: u.TTFT, Unit: "s", given: u.ttftGiven},
		{Name: "Time between tokens, mean", Want: u.ITL, Unit: "s", given: u.itlGiven},
		{Name: "Whole answer", Want: u.E2E, Unit: "s", given: u.e2eGiven},
	}
	if u.Throughput > 0 {
		out = append(out, Target{Name: "Generated tokens", Want: u.Throughput, Unit: "1/s", given: true})
	}
	for i := range out {
		t := &out[i]
		switch {
		case !s.times():
			t.Verdict, t.Why = targetUnknown,
				"the speed of the GPU is not known: use --gpu NAME instead of --gpu-memory, and set the size of the weights"
		case t.Name == "First token":
			s.judgeFirst(t, p, chunk)
		case t.Name == "Whole answer":
			s.judgeWhole(t, p, seqs, chunk)
		case t.Unit == "1/s":
			s.judgeThroughput(t, p, seqs)
		default:
			s.judgeBetween(t, p, seqs)
		}
	}
	return out
}

func (t *Target) is(value float64, verdict Verdict, why string) {
	t.Value, t.Verdict, t.Why = &value, verdict, why
}

// judgeFirst compares the target with the time of the prefill alone.
func (s Sheet) judgeFirst(t *Target, p poolInput, chunk int) {
	if p.prompt <= 0 {
		t.Verdict, t.Why = targetUnknown,
			"the length of prompts is not known: use --prompt-tokens and --answer-tokens instead of --avg-tokens"
		return
	}
	idle := func(h Hardware) float64 { return h.ttftIdle(*s.model, s.kvBytes, p.prompt, float64(chunk)) }
	if v := idle(*s.hardware); v <= t.Want {
		t.is(v, targetPossible, fmt.Sprintf("on an idle worker, for a prompt of %.0f tokens without cache hits; "+
			"plus the time in the queue", p.prompt))
		return
	}
	t.is(idle(*s.hardware), targetMissed,
		fmt.Sprintf("prefill alone of %.0f tokens without cache hits: shorter prompts or shared prefixes help, settings "+
			"do not; %s", p.prompt,
			s.orWider(func(h Hardware) bool { return idle(h) <= t.Want })))
}

// judgeBetween compares the target with the mean time between tokens at the advised number of
// sequences.
func (s Sheet) judgeBetween(t *Target, p poolInput, seqs int) {
	v := s.hardware.between(*s.model, s.kvBytes, p.load, seqs)
	switch {
	case v > t.Want:
		alone := s.hardware.between(*s.model, s.kvBytes, p.load, 1)
		t.is(v, targetMissed, fmt.Sprintf("with %d sequences; even one takes about %.0f ms to read the weights, so "+
			"smaller weights help and settings do not; ", seqs, 1000*alone)+
			s.orWider(func(h Hardware) bool { return h.between(*s.model, s.kvBytes, p.load, 1) <= t.Want }))
	case p.answer > 0:
		t.is(v, targetMet, fmt.Sprintf("on average, with %d sequences at all times and the prefill of their "+
			"prompts; each chunk is a pause, see below", seqs))
	default:
		t.is(v, targetPossible, fmt.Sprintf("%d sequences without prefill; to include prefill, set "+
			"--prompt-tokens and --answer-tokens", seqs))
	}
}

// judgeWhole compares the target with the time of a whole answer: its first token on an idle
// worker, and the others at the mean rate with the advised number of sequences.
func (s Sheet) judgeWhole(t *Target, p poolInput, seqs, chunk int) {
	if p.prompt <= 0 || p.answer <= 0 {
		t.Verdict, t.Why = targetUnknown,
			"the length of answers is not known: use --prompt-tokens and --answer-tokens instead of --avg-tokens"
		return
	}
	more := max(p.answer-1, 0)
	first := func(h Hardware) float64 { return h.ttftIdle(*s.model, s.kvBytes, p.prompt, float64(chunk)) }
	whole := func(h Hardware, seqs int) float64 {
		return first(h) + more*h.between(*s.model, s.kvBytes, p.load, seqs)
	}
	between := s.hardware.between(*s.model, s.kvBytes, p.load, seqs)
	v, sum := whole(*s.hardware, seqs), fmt.Sprintf("%.0f ms for the first token on an idle worker",
		1000*first(*s.hardware))
	if more > 0 {
		sum += fmt.Sprintf(" and %.0f × %.1f ms on average for the others, with %d sequences", more, 1000*between,
			seqs)
	}
	if v <= t.Want {
		t.is(v, targetPossible, sum+"; plus the time in the queue")
		return
	}
	help := ""
	if left := t.Want - first(*s.hardware); left > 0 {
		help = fmt.Sprintf("answers of up to %.0f tokens are in time, ", math.Floor(left/between)+1)
		if fewer := graphSize(s.hardware.seqsWithin(*s.model, s.kvBytes, p.load, left/more)); fewer >= 1 {
			t.is(v, targetMissed, fmt.Sprintf("%s: %sall with %d sequences at a time", sum, help, fewer))
			return
		}
		help += "and fewer sequences alone do not help; "
	}
	t.is(v, targetMissed, sum+": "+help+s.orWider(func(h Hardware) bool { return whole(h, 1) <= t.Want }))
}

// judgeThroughput compares the target with what a worker generates at the advised number of
// sequences.
func (s Sheet) judgeThroughput(t *Target, p poolInput, seqs int) {
	if p.prompt <= 0 || p.answer <= 0 {
		t.Verdict, t.Why = targetUnknown,
			"the length of prompts and answers is not known: use --prompt-tokens and --answer-tokens instead of "+
				"--avg-tokens"
		return
	}
	made := s.hardware.tokensPerSecond(*s.model, s.kvBytes, p.load, seqs)
	if made >= t.Want {
		t.is(made, targetMet, fmt.Sprintf("with %d sequences at all times, without cache hits", seqs))
		return
	}
	why := fmt.Sprintf("with %d sequences at all times, without cache hits: %.0f workers reach it", seqs,
		math.Ceil(t.Want/made))
	if fit := graphSize(safeMaxNumSeqs(p.blocks, s.each(p.engine, p.average))); fit > seqs {
		why += fmt.Sprintf("; with slower tokens the KV cache has room for %d, about %s", fit,
			state.FormatValue(s.hardware.tokensPerSecond(*s.model, s.kvBytes, p.load, fit), t.Unit))
	}
	t.is(made, targetMissed, why)
}

// orWider names the tensor-parallel group that meets the target, if one does.
func (s Sheet) orWider(holds func(Hardware) bool) string {
	if n := s.hardware.wider(*s.model, holds); n > 0 {
		return fmt.Sprintf("--tensor-parallel-size %d is enough", n)
	}
	return fmt.Sprintf("no --tensor-parallel-size up to %d is enough", max(inOneMachine, s.hardware.TensorParallel))
}

func (t Target) value() string {
	if t.Value == nil {
		return "—"
	}
	return state.FormatValue(*t.Value, t.Unit)
}
