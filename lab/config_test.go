package lab

import (
	"math"
	"testing"

	"paramedic/lab/metrics"
	"paramedic/lab/traffic"
)

func TestConfigBeyondTheLimitsIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"workers": {Workers: MaxWorkers + 1},
		"rate":    {Workload: traffic.Workload{Rate: MaxRate + 1}},
		"endless": {Workload: traffic.Workload{Rate: math.Inf(1)}},
		"missing": {Noise: metrics.Noise{Missing: 1.1}},
		"sensors": {Noise: metrics.Noise{Gauges: math.NaN()}},
	} {
		if _, err := NewFleet(c); err == nil {
			t.Errorf("%s: a fleet was made of what cannot be played", name)
		}
	}
}

func TestFaultTrafficIsCapped(t *testing.T) {
	f, err := NewFleet(Config{Workload: traffic.Workload{Rate: 1}})
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
