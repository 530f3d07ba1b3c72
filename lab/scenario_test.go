package lab

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// play runs a scenario and says when each alert first fired, in minutes since the start.
func play(t *testing.T, s Scenario) (*Fleet, map[string]float64) {
	t.Helper()
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := NewRuler(f, "")
	first := map[string]float64{}
	for at := time.Duration(0); at <= s.Length; at += ScrapeInterval {
		f.Advance(f.Start().Add(at))
		for _, a := range r.Evaluate() {
			if _, ok := first[a.Labels["alertname"]]; !ok {
				first[a.Labels["alertname"]] = at.Minutes()
			}
		}
		if os.Getenv("LAB_TRACE") != "" && at%(2*time.Minute) == 0 {
			for _, p := range f.Pods() {
				fmt.Printf("%4.0fm %s ready=%v run=%d wait=%d kv=%.2f preempt=%.0f tok=%.0f restarts=%d %s\n", at.Minutes(), p.Name[len(p.Name)-5:], p.Ready, p.Running, p.Waitlist, p.KVUsage, p.Preemptions, p.GeneratedTokens, p.Restarts, p.Waiting)
			}
		}
	}
	return f, first
}

func TestEveryFaultRaisesItsAlerts(t *testing.T) {
	want := map[string][]string{
		NodeFailure:         {"KubeNodeNotReady", "VLLMWorkerDown"},
		OOMKilled:           {"ContainerOOMKilled", "KubePodCrashLooping"},
		CUDAOOM:             {"KubePodCrashLooping"},
		GPUMemoryLeak:       {"GPUMemoryGrowth", "GPUMemoryHighUtilization"},
		GPUThrottle:         {"GPUThermalThrottling", "VLLMThroughputDrop"},
		KVExhaustion:        {"VLLMKVCacheExhaustion", "LLMPreemptionStorm", "VLLMTTFTDegradation"},
		KVLeak:              {"VLLMKVHeldWhileIdle"},
		ConcurrencyCap:      {"VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		PrefillStarvation:   {"VLLMTTFTDegradation"},
		RoutingSkew:         {"VLLMRequestQueueBackup"},
		PrefixCacheCollapse: {"VLLMPrefixCacheHitRateLow", "VLLMTTFTDegradation"},
		HostMemoryLeak:      {"ContainerMemoryGrowth", "ContainerOOMKilled"},
		GPUFault:            {"GPUXidError", "VLLMWorkerDown", "KubePodCrashLooping"},
		EngineHang:          {"VLLMEngineHang"},
		TrafficSurge:        {"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		LongContextBurst:    {"VLLMTTFTDegradation", "VLLMHighITL"},
		DecodeSaturation:    {"VLLMElevatedITL"},
		RetryStorm:          {"VLLMMostRequestsAborted", "VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		ClientCancellations: {"VLLMMostRequestsAborted"},
		QualityRegression:   {"LLMRefusalRateHigh", "LLMEmptyResponsesHigh"},
		BenignAlert:         {"GPUMemoryHighUtilization"},
		ModelLoadFailure:    {"KubePodCrashLooping", "VLLMWorkerDown"},
		BadRollout:          {"VLLMHighErrorRate"},
		ColdStart:           {"VLLMWorkerDown"},
		MonitoringGap:       {"VLLMWorkerDown"},
		GatewayFailure:      {"EPPNoReadyEndpoints", "EPPCriticalErrorRatio"},
		GPUUnderutilization: {"GPUIdleUnderLoad", "VLLMHighITL"},
	}
	for _, name := range Faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !slices.Contains([]string{KVExhaustion, RoutingSkew, GPUFault, BadRollout}, name) {
				t.Skip("SKIPPED with -short (the race detector makes it ten times as long): played whole by make test")
			}
			s, err := NewScenario(name, 1)
			if err != nil {
				t.Fatal(err)
			}
			_, first := play(t, s)
			for _, alert := range slices.Sorted(maps.Keys(first)) {
				t.Logf("%5.1f min %s", first[alert], alert)
				if first[alert] < 5 {
					t.Errorf("%s fired at minute %.1f, before the fault", alert, first[alert])
				}
			}
			for _, alert := range want[name] {
				if _, ok := first[alert]; !ok {
					t.Errorf("%s never fired", alert)
				}
			}
			if name == BenignAlert && len(first) != 1 {
				t.Errorf("a healthy pool raised %v", first)
			}
		})
	}
}

func TestWhatCannotBePlayedIsRefused(t *testing.T) {
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

func TestAFaultMakesNoMoreTrafficThanCanBePlayed(t *testing.T) {
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
