package lab

import (
	"math"
	"testing"
	"time"
)

// Diurnal traffic rises during a scenario, has the scenario's rate when the fault comes, and had
// the same rate a day before.
func TestRateVariesOverTheDay(t *testing.T) {
	s, err := NewScenario(GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Config.withDefaults().Workload.Rate
	s = s.Diurnal().Later(70 * time.Minute)
	c := s.Config.withDefaults()
	fault := s.Faults[0].At
	if at := c.Start.Add(fault); at.Hour() != 9 || at.Minute() != 0 {
		t.Errorf("the fault comes at %s", at)
	}
	at := func(after time.Duration) float64 { return c.Workload.rateAt((fault + after).Seconds()) }
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
	count := func() (n float64) {
		for _, w := range f.workers {
			n += float64(w.eng.stats.promptLen.count)
		}
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
	s, err := NewScenario(GPUThrottle, 1)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Diurnal()
	moved := s.Beginning(time.Date(2027, 3, 1, 17, 42, 31, 0, time.UTC))
	was, is := s.Config.withDefaults(), moved.Config.withDefaults()
	if is.Start.Hour() != 17 || is.Workload.clock != was.Workload.clock {
		t.Errorf("it begins at %s, with the traffic of minute %g of a day, want that of minute %g", is.Start, is.Workload.clock,
			was.Workload.clock)
	}
	if is = moved.Later(time.Hour).Config.withDefaults(); is.Workload.clock != was.Workload.clock-60 {
		t.Errorf("an hour earlier it has the traffic of minute %g, want %g", is.Workload.clock, was.Workload.clock-60)
	}
}
