package lab

import (
	"math"
	"testing"
)

func TestConfigBeyondTheLimitsIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"workers": {Workers: MaxWorkers + 1},
		"rate":    {Workload: Workload{Rate: MaxRate + 1}},
		"endless": {Workload: Workload{Rate: math.Inf(1)}},
		"missing": {Noise: Noise{Missing: 1.1}},
		"sensors": {Noise: Noise{Gauges: math.NaN()}},
	} {
		if _, err := NewFleet(c); err == nil {
			t.Errorf("%s: a fleet was made of what cannot be played", name)
		}
	}
}

func TestFaultTrafficIsCapped(t *testing.T) {
	f, err := NewFleet(Config{Workload: Workload{Rate: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Inject(Fault{Name: TrafficSurge, Severity: 1e6}); err != nil {
		t.Fatal(err)
	}
	f.applyFaults()
	if f.mix.Rate > MaxRate {
		t.Errorf("%g requests a second", f.mix.Rate)
	}
}
