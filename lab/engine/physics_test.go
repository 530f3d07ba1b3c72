package engine

import (
	"math"
	"math/rand/v2"
	"testing"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 3)) }

// play runs an engine's steps up to an end, from a time at which it idles.
func play(e *Engine, now, end float64, each func(now float64)) {
	for e.Tick(now); e.StepEnd() < end; e.Begin(now) {
		now = e.StepEnd()
		e.Finish(now, func(*Request) {})
		each(now)
	}
}

// The costs follow from the data sheet and the model's configuration; the package's comment has the
// sources.
func TestCostMatchesTheHardware(t *testing.T) {
	const bandwidth, flops, gpus = 3.35e12, 1979e12 / 2, 2 // of an H100 SXM; NVIDIA's figure is with sparsity
	const parameters, layers, kvHeads, hidden, heads, bf16 = 70.6e9, 80, 8, 8192, 64, 2
	kv := 2 * layers * kvHeads * (hidden / heads) * bf16
	c := Cost{}.WithDefaults(gpus)
	if c.KVBytesPerToken != kv {
		t.Errorf("a token's KV takes %d bytes, the model's configuration makes it %d", c.KVBytesPerToken, kv)
	}
	for what, x := range map[string]struct{ got, want float64 }{
		"an empty step reads every weight of a byte once": {c.Step(0, 0, 0), parameters/(gpus*bandwidth*0.85) + 1e-3},
		"a prompt token's arithmetic":                     {c.Step(1, 0, 0) - c.Step(0, 0, 0), 2 * parameters / (gpus * flops * 0.35)},
		"a KV token that is read": {c.Step(0, 0, 1000) - c.Step(0, 0, 0),
			1000 * float64(kv) / (gpus * bandwidth * 0.5)},
		"a thousand sequences": {c.Step(0, 1000, 0) - c.Step(0, 0, 0), 0.03},
	} {
		if math.Abs(x.got-x.want) > 0.001*x.want {
			t.Errorf("%s takes %g s, want %g", what, x.got, x.want)
		}
	}
}

func TestBlocksAreTokensOverSixteenRoundedUp(t *testing.T) {
	cost := Cost{}.WithDefaults(2)
	if got := cost.Blocks(0.9); got != 11711 {
		t.Errorf("the default hardware has %d blocks, the package says 11,711", got)
	}
	e := New(Config{Settings: Settings{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, NumGPUBlocks: 10}, Cost: cost, Rand: newRand()}, 0)
	r := &Request{Group: -1, Prompt: 33, Output: 20, MaxTokens: 20}
	e.Add(r)
	for now := 0.0; r.Generated < r.Output; now = e.stepEnd {
		e.Begin(now)
		e.Finish(e.StepEnd(), func(*Request) {})
		if want := blocksFor(r.Prompt + r.Generated - 1); r.Generated < r.Output && e.kv.total-e.kv.free != want {
			t.Fatalf("after %d tokens %d blocks are held, want %d", r.Generated, e.kv.total-e.kv.free, want)
		}
	}
	if e.kv.free != e.kv.total || e.KVUsage() != 0 {
		t.Errorf("%d of %d blocks are free after the last request left", e.kv.free, e.kv.total)
	}
}

// Requests of several groups exhaust the cache. No step creates a block or loses one.
func TestBlockCountIsConstantUnderPressure(t *testing.T) {
	for _, kind := range Kinds() {
		e := New(Config{Kind: kind, Settings: Settings{NumGPUBlocks: 2400}.WithDefaults(), Cost: Cost{}.WithDefaults(2), GroupTokens: 512,
			Rand: newRand()}, 0)
		rng := newRand()
		for i := range 300 {
			e.Add(&Request{Group: i%9 - 1, Prompt: 600 + rng.IntN(900), Output: 200 + rng.IntN(1500), MaxTokens: 4000,
				Timeout: 20 + 400*rng.Float64()})
		}
		play(e, 0, 600, func(now float64) {
			e.Cancel(now, func(*Request) {})
			held, queued := 0, 0
			for _, r := range e.running {
				held += r.blocks
			}
			for _, x := range e.prefixes {
				if x.refs > 0 {
					held += x.resident
				}
			}
			for s := e.kv.queue.Front(); s != nil; s = s.Next() {
				queued += s.Value.(*segment).n
			}
			if held+e.kv.free != e.kv.total || queued != e.kv.free {
				t.Fatalf("%s at %.1f s: %d held, %d free (%d queued) of %d", kind, now, held, e.kv.free, queued, e.kv.total)
			}
		})
		if s := e.stats; s.preemptions < 10 || s.finished[finishedAbort] < 10 || s.finished[finishedStop] < 50 || e.Load() > 0 {
			t.Errorf("%s: %g preemptions, %v finished, %d left: the cache was not under pressure", kind, s.preemptions, s.finished, e.Load())
		}
	}
}
