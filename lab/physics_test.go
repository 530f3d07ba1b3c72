package lab

import (
	"math"
	"testing"
	"time"
)

func newFleet(t testing.TB, c Config) *Fleet {
	t.Helper()
	f, err := NewFleet(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The costs follow from the data sheet and the model's configuration; the package's comment has the
// sources.
func TestCostMatchesTheHardware(t *testing.T) {
	const bandwidth, flops, gpus = 3.35e12, 1979e12 / 2, 2 // of an H100 SXM; NVIDIA's figure is with sparsity
	const parameters, layers, kvHeads, hidden, heads, bf16 = 70.6e9, 80, 8, 8192, 64, 2
	kv := 2 * layers * kvHeads * (hidden / heads) * bf16
	c := newFleet(t, Config{Seed: 1}).cfg.Cost
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
	f := newFleet(t, Config{Seed: 1})
	if got := f.cfg.Cost.Blocks(0.9); got != 11711 {
		t.Errorf("the default hardware has %d blocks, the package says 11,711", got)
	}
	e := newEngine(Engine{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, NumGPUBlocks: 10}, f.cfg.Cost, 0, newRand(1))
	r := &request{group: -1, prompt: 33, output: 20, maxTokens: 20}
	e.add(r)
	for now := 0.0; r.generated < r.output; now = e.stepEnd {
		e.begin(now)
		e.finish(e.stepEnd, func(*request, string) {})
		if want := blocksFor(r.prompt + r.generated - 1); r.generated < r.output && e.kv.total-e.kv.free != want {
			t.Fatalf("after %d tokens %d blocks are held, want %d", r.generated, e.kv.total-e.kv.free, want)
		}
	}
	if e.kv.free != e.kv.total || e.kv.usage() != 0 {
		t.Errorf("%d of %d blocks are free after the last request left", e.kv.free, e.kv.total)
	}
}

// Little's law: the mean number of requests in the system is their arrival rate times their mean
// time in it.
func TestLittlesLawHolds(t *testing.T) {
	f := newFleet(t, Config{Seed: 3, Workload: Workload{Rate: 3, Retries: -1}})
	var inside, samples float64
	for s := 60; s < 1860; s++ {
		f.Advance(f.Start().Add(time.Duration(s) * time.Second))
		for _, p := range f.Pods() {
			inside += float64(p.Running + p.Waitlist)
		}
		samples++
	}
	var time, count float64
	for _, w := range f.workers {
		time += w.eng.stats.e2e.sum
		count += float64(w.eng.stats.e2e.count)
	}
	got, want := inside/samples, count/1860*(time/count)
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%.1f requests in the system, Little's law says %.1f", got, want)
	}
}

func TestThroughputIsBoundByTheStepTime(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Engine: Engine{MaxNumSeqs: 32}, Workload: Workload{Rate: 40}})
	f.Advance(f.Start().Add(5 * time.Minute))
	for _, w := range f.workers {
		rate := w.eng.stats.generationTokens / 300
		if bound := 32 / f.cfg.Cost.Step(0, 32, 0); rate > bound || rate < bound/4 {
			t.Errorf("%s generates %.0f tokens/s; 32 sequences a step allow %.0f", w.name, rate, bound)
		}
		if n := len(w.eng.running); n > 32 {
			t.Errorf("%s runs %d requests with max_num_seqs 32", w.name, n)
		}
	}
}

func TestBlockCountIsConstantUnderPressure(t *testing.T) {
	s, err := NewScenario(KVExhaustion, 5)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	for m := 1; m <= 15; m++ {
		f.Advance(f.Start().Add(time.Duration(m) * time.Minute))
		for _, w := range f.workers {
			held, queued := 0, 0
			for _, r := range w.eng.running {
				held += r.blocks
			}
			for _, x := range w.eng.prefixes {
				if x.refs > 0 {
					held += x.resident
				}
			}
			for e := w.eng.kv.queue.Front(); e != nil; e = e.Next() {
				queued += e.Value.(*segment).n
			}
			if kv := w.eng.kv; held+kv.free != kv.total || queued != kv.free {
				t.Fatalf("minute %d: %d held, %d free (%d queued) of %d", m, held, kv.free, queued, kv.total)
			}
		}
	}
}

func BenchmarkFifteenMinutesOfFourWorkers(b *testing.B) {
	for b.Loop() {
		f := newFleet(b, Config{Seed: 1})
		if err := f.Inject(Fault{Name: KVExhaustion, At: time.Minute}); err != nil {
			b.Fatal(err)
		}
		f.Advance(f.Start().Add(15 * time.Minute))
	}
}
