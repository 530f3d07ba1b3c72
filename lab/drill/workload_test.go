package drill

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"paramedic/lab"
	"paramedic/lab/engine"
	"paramedic/lab/metrics/metricstest"
	"paramedic/lab/traffic"
)

// observed returns the number and the sum of the observations of all workers' histograms.
func observed(f *lab.Fleet, name string) (count, sum float64) {
	_, _, pages := f.Scrape()
	var all []*dto.MetricFamily
	for _, p := range pages {
		all = append(all, p.Families...)
	}
	return metricstest.Observed(all, name)
}

// Diurnal traffic rises during a scenario, has the scenario's rate when the fault comes, and had
// the same rate a day before.
func TestRateVariesOverTheDay(t *testing.T) {
	s, err := New(lab.GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Config.WithDefaults().Workload.Rate
	s = s.Diurnal().Later(70 * time.Minute)
	c := s.Config.WithDefaults()
	fault := s.Faults[0].At
	if at := c.Start.Add(fault); at.Hour() != 9 || at.Minute() != 0 {
		t.Errorf("the fault comes at %s", at)
	}
	at := func(after time.Duration) float64 { return c.Workload.RateAt((fault + after).Seconds()) }
	if math.Abs(at(0)-own) > 0.001*own {
		t.Errorf("the rate is %.2f at the fault, the scenario's is %g", at(0), own)
	}
	if grown := at(0) / at(-time.Hour); grown < 1.1 || grown > 1.2 {
		t.Errorf("it grew by a factor of %.2f within the hour before", grown)
	}
	if at(15*time.Minute) <= at(0) {
		t.Error("it does not rise while the scenario is played")
	}
	if math.Abs(at(-24*time.Hour)-at(0)) > 1e-9 || math.Abs(at(6*time.Hour)-1.5*own) > 0.01 || math.Abs(at(-6*time.Hour)-0.5*own) > 0.01 {
		t.Errorf("%.2f a day ago, %.2f at three in the afternoon, %.2f at night", at(-24*time.Hour), at(6*time.Hour), at(-6*time.Hour))
	}
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	count := func() float64 {
		n, _ := observed(f, "vllm:request_prompt_tokens")
		return n
	}
	f.Advance(f.Start().Add(10 * time.Minute))
	early := count()
	f.Advance(f.Start().Add(60 * time.Minute))
	late := count()
	f.Advance(f.Start().Add(70 * time.Minute))
	if late = count() - late; late < 1.03*early {
		t.Errorf("%.0f requests came in ten minutes, and %.0f in the same time fifty minutes later", early, late)
	}
}

// A scenario with another start keeps its traffic's hours.
func TestMovedScenarioKeepsItsTrafficHours(t *testing.T) {
	s, err := New(lab.GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Diurnal()
	moved := s.Beginning(time.Date(2027, 3, 1, 17, 42, 31, 0, time.UTC))
	was, is, later := s.Config.WithDefaults(), moved.Config.WithDefaults(), moved.Later(time.Hour).Config.WithDefaults()
	if is.Start.Hour() != 17 {
		t.Errorf("it begins at %s", is.Start)
	}
	for minute := 0.0; minute < 1440; minute += 17 {
		want := was.Workload.RateAt(60 * minute)
		if got := is.Workload.RateAt(60 * minute); got != want {
			t.Errorf("after %g minutes it has %g requests a second, want %g", minute, got, want)
		}
		if got := later.Workload.RateAt(60 * (minute + 60)); math.Abs(got-want) > 1e-9 {
			t.Errorf("with an hour before it, it has %g requests a second after %g minutes, want %g", got, minute, want)
		}
	}
}

// A replay has the scenario's rate and mean lengths in every hour and with every seed. Otherwise
// the pool could be overloaded before its fault, or not overloaded by it.
func TestReplayKeepsTheScenariosMeans(t *testing.T) {
	var trace traffic.Trace // bursts of twenty every ten seconds; answers are short but for one in ten
	for i := range 2000 {
		a := traffic.Arrival{At: time.Duration(i/20) * 10 * time.Second, Prompt: 4000 + 200*(i%20), Output: 20, Group: i % 7, Shared: 3200}
		if i%10 == 0 {
			a.Output = 300
		}
		trace = append(trace, a)
	}
	begins := map[int]bool{}
	for seed := range uint64(2) {
		s, err := New(lab.PrefixCacheCollapse, seed)
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
			seen[0], seen[1] = observed(f, "vllm:request_prompt_tokens")
			_, seen[2] = observed(f, "vllm:request_generation_tokens")
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
			if a.At < last || a.Shared > a.Prompt || a.Shared%engine.BlockSize != 0 {
				t.Fatalf("%+v after %s", a, last)
			}
			last = a.At
		}
	}
	if len(begins) < 2 {
		t.Error("every seed begins at the same place of the trace")
	}
	own, err := NewDecoy(lab.FullCache, 1)
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
	s, err := New(lab.GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Config.WithDefaults().Workload.Rate
	var bursts, even traffic.Trace
	for at := time.Duration(0); at < time.Hour; {
		bursts = append(bursts, traffic.Arrival{At: at, Prompt: 500, Output: 50, Group: -1})
		if at += 300 * time.Millisecond; at > 20*time.Minute && at < 30*time.Minute {
			at -= 200 * time.Millisecond
		}
	}
	for i := range 1000 {
		even = append(even, traffic.Arrival{At: time.Duration(i) * time.Second, Prompt: 500, Output: 50, Group: -1})
	}
	if rate := s.Replay(even).Config.Workload.Rate; math.Abs(rate-own) > 0.02*own {
		t.Errorf("an even trace comes at %.2f a second, want %.2f", rate, own)
	}
	rate := s.Replay(bursts).Config.Workload.Rate
	if busiest := 10 * rate / bursts.Rate(); math.Abs(busiest-own) > 0.03*own { // ten a second in the trace's own time
		t.Errorf("in its busiest minutes %.2f come a second, want %.2f", busiest, own)
	}
}
