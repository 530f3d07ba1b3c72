package alerting

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// play runs a scenario and returns when each alert first fired, in minutes since the start.
func play(t *testing.T, s drill.Scenario) (*lab.Fleet, map[string]float64) {
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
				fmt.Printf("%4.0fm %s ready=%v run=%d wait=%d kv=%.2f preempt=%.0f tok=%.0f restarts=%d %s\n", at.Minutes(),
					p.Name[len(p.Name)-5:], p.Ready, p.Running, p.Waitlist, p.KVUsage, p.Preemptions, p.GeneratedTokens, p.Restarts,
					p.Waiting)
			}
		}
	}
	return f, first
}

func TestEveryFaultRaisesItsAlerts(t *testing.T) {
	want := map[string][]string{
		lab.NodeFailure:         {"KubeNodeNotReady", "VLLMWorkerDown"},
		lab.OOMKilled:           {"ContainerOOMKilled", "KubePodCrashLooping"},
		lab.CUDAOOM:             {"KubePodCrashLooping"},
		lab.GPUMemoryLeak:       {"GPUMemoryGrowth", "GPUMemoryHighUtilization"},
		lab.GPUThrottle:         {"GPUThermalThrottling", "VLLMThroughputDrop"},
		lab.KVExhaustion:        {"VLLMKVCacheExhaustion", "LLMPreemptionStorm", "VLLMTTFTDegradation"},
		lab.KVLeak:              {"VLLMKVHeldWhileIdle"},
		lab.ConcurrencyCap:      {"VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		lab.PrefillStarvation:   {"VLLMTTFTDegradation"},
		lab.RoutingSkew:         {"VLLMRequestQueueBackup"},
		lab.PrefixCacheCollapse: {"VLLMPrefixCacheHitRateLow", "VLLMTTFTDegradation"},
		lab.HostMemoryLeak:      {"ContainerMemoryGrowth", "ContainerOOMKilled"},
		lab.GPUFault:            {"GPUXidError", "VLLMWorkerDown", "KubePodCrashLooping"},
		lab.EngineHang:          {"VLLMEngineHang"},
		lab.TrafficSurge:        {"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		lab.LongContextBurst:    {"VLLMTTFTDegradation", "VLLMHighITL"},
		lab.DecodeSaturation:    {"VLLMElevatedITL"},
		lab.RetryStorm:          {"VLLMMostRequestsAborted", "VLLMRequestQueueBackup", "VLLMTTFTDegradation"},
		lab.ClientCancellations: {"VLLMMostRequestsAborted"},
		lab.QualityRegression:   {"LLMRefusalRateHigh", "LLMEmptyResponsesHigh"},
		lab.BenignAlert:         {"GPUMemoryHighUtilization"},
		lab.ModelLoadFailure:    {"KubePodCrashLooping", "VLLMWorkerDown"},
		lab.BadRollout:          {"VLLMHighErrorRate"},
		lab.ColdStart:           {"VLLMWorkerDown"},
		lab.MonitoringGap:       {"VLLMWorkerDown"},
		lab.GatewayFailure:      {"EPPNoReadyEndpoints", "EPPCriticalErrorRatio"},
		lab.GPUUnderutilization: {"GPUIdleUnderLoad", "VLLMHighITL"},
	}
	for _, name := range lab.Faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !slices.Contains([]string{lab.KVExhaustion, lab.RoutingSkew, lab.GPUFault, lab.BadRollout}, name) {
				t.Skip("SKIPPED with -short (the race detector makes it ten times as long): played whole by make test")
			}
			s, err := drill.New(name, 1)
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
			if name == lab.BenignAlert && len(first) != 1 {
				t.Errorf("a healthy pool raised %v", first)
			}
		})
	}
}
