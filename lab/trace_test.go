package lab

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,1000,40
2023-11-16 18:15:48.6805900,2000,80
2023-11-16 18:15:49.6805900,3000,120
`

const mooncake = `{"timestamp": 0, "input_length": 1200, "output_length": 50, "hash_ids": [0, 1, 2]}
{"timestamp": 500, "input_length": 1100, "output_length": 60, "hash_ids": [0, 1, 3]}
{"timestamp": 1500, "input_length": 600, "output_length": 70, "hash_ids": [9, 10]}
`

func TestReadTrace(t *testing.T) {
	a, err := ReadTrace(strings.NewReader(azure))
	if err != nil || len(a) != 3 || a[1] != (Arrival{At: 2 * time.Second, Prompt: 2000, Output: 80, Group: -1}) || a.Rate() != 3/4.5 {
		t.Errorf("%v %v", a, err)
	}
	m, err := ReadTrace(strings.NewReader(mooncake))
	if err != nil || len(m) != 3 || m[0].Group != 1 || m[0].Shared != 1024 || m[2].Shared != 0 || m[2].Group < 0 ||
		m[2].At != 1500*time.Millisecond {
		t.Errorf("%v %v", m, err)
	}
	for _, bad := range []string{"", "a,b,c\n", azure[:75], `{"timestamp": "x"}`, "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n"} {
		if _, err := ReadTrace(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is a trace", bad)
		}
	}
}

// A trace of any recorded speed is played at the workload's rate, and keeps its lengths.
func TestTraceIsPlayedAtTheRequestedRate(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(azure))
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, Config{Seed: 1, Workload: Workload{Rate: 2, Trace: trace}})
	f.Advance(f.Start().Add(10 * time.Minute))
	var count, prompts, outputs float64
	for _, w := range f.workers {
		count += float64(w.eng.stats.promptLen.count)
		prompts += w.eng.stats.promptLen.sum
		outputs += w.eng.stats.outputLen.sum
	}
	if math.Abs(count-1200) > 24 || math.Abs(prompts/count-2000) > 20 || math.Abs(outputs/count-80) > 1 {
		t.Errorf("%.0f requests of %.0f prompt and %.0f answer tokens, want 1200 of 2000 and 80", count, prompts/count, outputs/count)
	}
}

// A replay has the scenario's rate and mean lengths in every hour and with every seed. Otherwise
// the pool could be overloaded before its fault, or not overloaded by it.
func TestReplayKeepsTheScenariosMeans(t *testing.T) {
	var trace Trace // bursts of twenty every ten seconds; answers are short but for one in ten
	for i := range 2000 {
		a := Arrival{At: time.Duration(i/20) * 10 * time.Second, Prompt: 4000 + 200*(i%20), Output: 20, Group: i % 7, Shared: 3200}
		if i%10 == 0 {
			a.Output = 300
		}
		trace = append(trace, a)
	}
	begins := map[int]bool{}
	for seed := range uint64(2) {
		s, err := NewScenario(PrefixCacheCollapse, seed)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Replay(trace).Later(2 * time.Hour)
		f, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		var before [3]float64
		for hour := 1; hour <= 2; hour++ {
			f.Advance(f.Start().Add(time.Duration(hour) * time.Hour))
			var seen [3]float64
			for _, w := range f.workers {
				seen[0] += float64(w.eng.stats.promptLen.count)
				seen[1] += w.eng.stats.promptLen.sum
				seen[2] += w.eng.stats.outputLen.sum
			}
			count, prompts, outputs := seen[0]-before[0], seen[1]-before[1], seen[2]-before[2]
			own := s.Config.Workload
			if math.Abs(count/3600-own.Rate) > 0.02*own.Rate || math.Abs(prompts/count-own.Prompt.Mean) > 0.01*own.Prompt.Mean ||
				math.Abs(outputs/count-own.Output.Mean) > 0.02*own.Output.Mean {
				t.Errorf("seed %d, hour %d: %.2f requests a second of %.0f and %.0f tokens, want %g of %g and %g", seed, hour, count/3600,
					prompts/count, outputs/count,
					own.Rate, own.Prompt.Mean, own.Output.Mean)
			}
			before = seen
		}
		begins[s.Config.Workload.Trace[0].Prompt*100+s.Config.Workload.Trace[0].Group] = true
		last := time.Duration(0)
		for _, a := range s.Config.Workload.Trace {
			if a.At < last || a.Shared > a.Prompt || a.Shared%BlockSize != 0 {
				t.Fatalf("%+v after %s", a, last)
			}
			last = a.At
		}
	}
	if len(begins) < 2 {
		t.Error("every seed begins at the same place of the trace")
	}
	own, err := NewDecoy(FullCache, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s := own.Replay(trace); len(s.Config.Workload.Trace) != 240 {
		t.Error("a batch job at an even pace became recorded traffic")
	}
}

// A pool is sized for its peak. A trace that is three times as fast for ten minutes of an hour has
// a third of the rate otherwise.
func TestReplayPeaksAtTheScenariosRate(t *testing.T) {
	s, err := NewScenario(GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Config.withDefaults().Workload.Rate
	var bursts, even Trace
	for at := time.Duration(0); at < time.Hour; {
		bursts = append(bursts, Arrival{At: at, Prompt: 500, Output: 50, Group: -1})
		if at += 300 * time.Millisecond; at > 20*time.Minute && at < 30*time.Minute {
			at -= 200 * time.Millisecond
		}
	}
	for i := range 1000 {
		even = append(even, Arrival{At: time.Duration(i) * time.Second, Prompt: 500, Output: 50, Group: -1})
	}
	if rate := s.Replay(even).Config.Workload.Rate; math.Abs(rate-own) > 0.02*own {
		t.Errorf("an even trace comes at %.2f a second, want %.2f", rate, own)
	}
	rate := s.Replay(bursts).Config.Workload.Rate
	if busiest := 10 * rate / bursts.Rate(); math.Abs(busiest-own) > 0.03*own { // ten a second in the trace's own time
		t.Errorf("in its busiest minutes %.2f come a second, want %.2f", busiest, own)
	}
}

func TestRecordedTracesAreRead(t *testing.T) {
	for name, want := range map[string]int{"azure_llm_2023_conv.csv": 19366, "azure_llm_2023_code.csv": 8819,
		"mooncake_conversation.jsonl": 12031} {
		f, err := os.Open(filepath.Join("..", "..", "shared", "data", "traces", name))
		if err != nil {
			t.Skip("SKIPPED: no ../shared/data/traces beside the checkout; recorded traces were not read:", err)
		}
		trace, err := ReadTrace(f)
		f.Close()
		if err != nil || len(trace) < want-1 || len(trace) > want {
			t.Errorf("%s: %d requests, want %d: %v", name, len(trace), want, err)
		}
	}
}

// A pool's capacity is its slots divided by the time of a request. Below it, all arrivals finish;
// above it, the rest waits.
func TestArrivalsBeyondCapacityWait(t *testing.T) {
	load := func(rate float64) (waiting, done float64) {
		// No shared starts, retries or cancellations: the load is the arrivals.
		w := Workload{Rate: rate, GroupShare: 1e-9, Prompt: Lengths{Mean: 100}, Output: Lengths{Mean: 200}, Patience: time.Hour,
			Timeout: time.Hour, Retries: -1}
		f := newFleet(t, Config{Seed: 2, Engine: Engine{MaxNumSeqs: 4}, Workload: w})
		f.Advance(f.Start().Add(10 * time.Minute))
		for _, x := range f.workers {
			waiting += float64(len(x.eng.waiting))
			done += float64(x.eng.stats.e2e.count)
		}
		return waiting, done / 600
	}
	cost := Cost{}.withDefaults(2)
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

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		at    float64
		want  float64
	}{{Step, 1, 1}, {Pulse, 60, 1}, {Pulse, 180, 0}, {Pulse, 250, 1}, {Sawtooth, 60, .25}, {Sawtooth, 300, .25}, {Gradual, 90, .5},
		{Gradual, 400, 1}} {
		f := newFleet(t, Config{Seed: 1})
		if err := f.Inject(Fault{Name: KVExhaustion, Shape: c.shape}); err != nil {
			t.Fatal(err)
		}
		if got := f.faults[0].level(c.at); got != c.want {
			t.Errorf("%s has %g of its strength after %g s, want %g", c.shape, got, c.at, c.want)
		}
	}
	if err := newFleet(t, Config{}).Inject(Fault{Name: KVExhaustion, Shape: "wave"}); err == nil {
		t.Error("a wave is a shape")
	}
}

// Missing scrapes have the configured share, and all readers miss the same ones.
func TestNoiseLosesScrapes(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Noise: Noise{Missing: 0.2, Gauges: 0.05}})
	lost, all := 0, 0
	for s := 1; s <= 100; s++ {
		f.Advance(f.Start().Add(time.Duration(s) * time.Second))
		for _, target := range f.targets() {
			gone := f.page(target, true) == nil
			if again := f.page(target, true) == nil; again != gone {
				t.Fatal("two readers of one moment see different scrapes")
			}
			all++
			lost += boolInt(gone)
		}
	}
	if share := float64(lost) / float64(all); math.Abs(share-0.2) > 0.05 {
		t.Errorf("%.2f of the scrapes are lost, want 0.2", share)
	}
}

// An excluded metric is on no page; the rest of each page is unchanged.
func TestExcludedMetricIsOnNoPage(t *testing.T) {
	count := func(without ...string) (xids, running int) {
		f := newFleet(t, Config{Seed: 1, Without: without})
		f.Advance(f.Start().Add(time.Second))
		for _, target := range f.targets() {
			for _, family := range f.page(target, true) {
				xids += boolInt(strings.HasPrefix(family.GetName(), "DCGM_FI_DEV_XID"))
				running += boolInt(family.GetName() == "vllm:num_requests_running")
			}
		}
		return xids, running
	}
	xids, running := count()
	if xids == 0 || running == 0 {
		t.Fatalf("a whole fleet has %d gauges of Xids and %d of running requests", xids, running)
	}
	if got, rest := count("DCGM_*XID*"); got != 0 || rest != running {
		t.Errorf("without Xids %d gauges of them are left, and %d of %d of running requests", got, rest, running)
	}
	if err := (Config{Without: []string{"DCGM_["}}).Validate(); err == nil || !strings.Contains(err.Error(), "is no metric") {
		t.Errorf("a pattern that cannot be: %v", err)
	}
}
