package lab

import (
	"math"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab/engine"
	"paramedic/lab/metrics/metricstest"
	"paramedic/lab/traffic"
)

func newFleet(t testing.TB, c Config) *Fleet {
	t.Helper()
	f, err := NewFleet(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// broken returns a fleet whose second worker, or all of which, a fault breaks after five minutes,
// at a time since its start.
func broken(t testing.TB, c Config, x Fault, at time.Duration) *Fleet {
	t.Helper()
	f := newFleet(t, c)
	x.At, x.Worker = 5*time.Minute, 1
	if err := f.Inject(x); err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(at))
	return f
}

// pages returns the families of all pages of a job.
func pages(f *Fleet, job string) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, target := range f.Targets() {
		if target.Job == job {
			out = append(out, f.page(target, true)...)
		}
	}
	return out
}

// observed returns the number and the sum of the observations of all vLLM workers' histograms.
func observed(f *Fleet, name string) (count, sum float64) {
	return metricstest.Observed(pages(f, "vllm"), name)
}

// Little's law: the mean number of requests in the system is their arrival rate times their mean
// time in it.
func TestLittlesLawHolds(t *testing.T) {
	f := newFleet(t, Config{Seed: 3, Workload: traffic.Workload{Rate: 3, Retries: -1}})
	var inside, samples float64
	for s := 60; s < 1860; s++ {
		f.Advance(f.Start().Add(time.Duration(s) * time.Second))
		for _, p := range f.Pods() {
			inside += float64(p.Running + p.Waitlist)
		}
		samples++
	}
	count, time := observed(f, "vllm:e2e_request_latency_seconds")
	got, want := inside/samples, count/1860*(time/count)
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%.1f requests in the system, Little's law says %.1f", got, want)
	}
}

func TestThroughputIsBoundByTheStepTime(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Engine: engine.Settings{MaxNumSeqs: 32}, Workload: traffic.Workload{Rate: 40}})
	f.Advance(f.Start().Add(5 * time.Minute))
	for _, p := range f.Pods() {
		rate := p.GeneratedTokens / 300
		if bound := 32 / f.cfg.Cost.Step(0, 32, 0); rate > bound || rate < bound/4 {
			t.Errorf("%s generates %.0f tokens/s; 32 sequences a step allow %.0f", p.Name, rate, bound)
		}
		if p.Running > 32 {
			t.Errorf("%s runs %d requests with max_num_seqs 32", p.Name, p.Running)
		}
	}
}

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,1000,40
2023-11-16 18:15:48.6805900,2000,80
2023-11-16 18:15:49.6805900,3000,120
`

// A trace of any recorded speed is played at the workload's rate, and keeps its lengths.
func TestTraceIsPlayedAtTheRequestedRate(t *testing.T) {
	trace, err := traffic.ReadTrace(strings.NewReader(azure))
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, Config{Seed: 1, Workload: traffic.Workload{Rate: 2, Trace: trace}})
	f.Advance(f.Start().Add(10 * time.Minute))
	count, prompts := observed(f, "vllm:request_prompt_tokens")
	_, outputs := observed(f, "vllm:request_generation_tokens")
	if math.Abs(count-1200) > 24 || math.Abs(prompts/count-2000) > 20 || math.Abs(outputs/count-80) > 1 {
		t.Errorf("%.0f requests of %.0f prompt and %.0f answer tokens, want 1200 of 2000 and 80", count, prompts/count, outputs/count)
	}
}

// A pool's capacity is its slots divided by the time of a request. Below it, all arrivals finish;
// above it, the rest waits.
func TestArrivalsBeyondCapacityWait(t *testing.T) {
	load := func(rate float64) (waiting, done float64) {
		// No shared starts, retries or cancellations: the load is the arrivals.
		w := traffic.Workload{Rate: rate, GroupShare: 1e-9, Prompt: traffic.Lengths{Mean: 100}, Output: traffic.Lengths{Mean: 200},
			Patience: time.Hour, Timeout: time.Hour, Retries: -1}
		f := newFleet(t, Config{Seed: 2, Engine: engine.Settings{MaxNumSeqs: 4}, Workload: w})
		f.Advance(f.Start().Add(10 * time.Minute))
		for _, p := range f.Pods() {
			waiting += float64(p.Waitlist)
		}
		done, _ = observed(f, "vllm:e2e_request_latency_seconds")
		return waiting, done / 600
	}
	cost := engine.Cost{}.WithDefaults(2)
	// Slots divided by the time in one, with the prefills of the other slots.
	capacity := 4 * 4 / (200*cost.Step(0, 4, 4*200) + 4*cost.PerPrefillToken*100)
	if waiting, done := load(0.7 * capacity); waiting > 20 || math.Abs(done/(0.7*capacity)-1) > 0.08 {
		t.Errorf("at 0.7 of the capacity %.0f requests wait and %.2f of %.2f a second are done", waiting, done, 0.7*capacity)
	}
	waiting, done := load(1.5 * capacity)
	if math.Abs(done/capacity-1) > 0.12 {
		t.Errorf("above capacity %.2f requests a second are done, theory says %.2f", done, capacity)
	}
	if grown := (1.5*capacity - done) * 600; math.Abs(waiting/grown-1) > 0.12 {
		t.Errorf("%.0f requests wait; what arrived and was not done is %.0f", waiting, grown)
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
