package story_test

import (
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/story"
)

// fleetOf returns the fleet of a story; lasts ends its fault, unless it is zero.
func fleetOf(t *testing.T, id string, lasts time.Duration) *lab.Fleet {
	t.Helper()
	s, err := story.New(id, 7)
	if err != nil {
		t.Fatal(err)
	}
	s.Faults[0].For = lasts
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// at advances the fleet to a minute and returns its pods.
func at(f *lab.Fleet, minute float64) []lab.Pod {
	f.Advance(f.Start().Add(time.Duration(minute * float64(time.Minute))))
	return f.Pods()
}

// values returns the samples of a gauge or a counter on all pages, by pod or by GPU.
func values(f *lab.Fleet, metric string) map[string]float64 {
	out := map[string]float64{}
	_, _, pages := f.Scrape()
	for _, p := range pages {
		for _, family := range p.Families {
			if family.GetName() != metric {
				continue
			}
			for _, m := range family.GetMetric() {
				key := ""
				for _, l := range m.GetLabel() {
					if l.GetName() == "pod" && p.Target.Job != "dcgm" || l.GetName() == "UUID" {
						key = l.GetValue()
					}
				}
				out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestLowLimitKillsNewWorkersOnly(t *testing.T) {
	old, killed := 0, 0
	for _, p := range at(fleetOf(t, "oom_killed/low-limit", 0), 12) {
		switch {
		case p.LastTermination == "OOMKilled" && !p.Ready && p.Restarts > 1:
			killed++
		case p.Ready && p.Restarts == 0:
			old++
		}
	}
	if old != 4 || killed != 1 {
		t.Errorf("%d old workers serve and %d new ones were killed", old, killed)
	}
}

func TestContainedErrorKillsOnce(t *testing.T) {
	p := at(fleetOf(t, "gpu_fault/contained-error", 0), 10)[1]
	if p.Restarts != 1 || !p.Ready || p.Running == 0 || !strings.Contains(p.LastWords, "uncorrectable ECC") {
		t.Errorf("%+v", p)
	}
}

// A brake holds the GPUs of one machine down, and releases them.
func TestBrakeHoldsOneMachine(t *testing.T) {
	f := fleetOf(t, "gpu_throttle/power-brake", 4*time.Minute)
	at(f, 8)
	slow := 0
	for _, mhz := range values(f, "DCGM_FI_DEV_SM_CLOCK") {
		if mhz < 700 {
			slow++
		}
	}
	at(f, 12)
	after := values(f, "DCGM_FI_DEV_SM_CLOCK")
	for gpu, mhz := range after {
		if mhz < 1900 {
			t.Errorf("%s still runs at %g MHz", gpu, mhz)
		}
	}
	if slow != 4 || len(after) != 12 {
		t.Errorf("%d of %d GPUs are slow, want the four of one machine", slow, len(after))
	}
}

// A machine that was cut off comes back with the same processes.
func TestNetworkFlapKeepsProcesses(t *testing.T) {
	f := fleetOf(t, "node_failure/network-flap", 0)
	before := at(f, 4.9)[1]
	if p := at(f, 7)[1]; p.Ready || p.Running > 0 {
		t.Errorf("cut off: %+v", p)
	}
	after := at(f, 10)[1]
	if after.UID != before.UID || !after.Ready || after.Restarts != 0 || after.GeneratedTokens <= before.GeneratedTokens {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// The workers of a machine with a dead kubelet get no requests, and their pages are there.
func TestDeadKubeletLeavesProcesses(t *testing.T) {
	f := fleetOf(t, "node_failure/dead-kubelet", 0)
	pods := at(f, 8)
	ready, pages := values(f, "kube_pod_container_status_ready"), values(f, "vllm:num_requests_running")
	idle := 0
	for _, p := range pods {
		if running, served := pages[p.Name]; served && ready[p.Name] == 0 && running == 0 {
			idle++
		}
	}
	if idle != 2 || len(pages) != 4 {
		t.Errorf("%d of %d workers serve without requests", idle, len(pages))
	}
}

// Blocks of requests that ended stay held in the pause between two bursts.
func TestLostAcknowledgementsHoldBlocks(t *testing.T) {
	f := fleetOf(t, "kv_leak/lost-acknowledgements", 0)
	for i, p := range at(f, 14.9) {
		if p.Running+p.Waitlist > 0 || (p.KVUsage > 0.1) != (i == 1) {
			t.Errorf("worker %d: %d requests, KV cache %.2f full", i, p.Running, p.KVUsage)
		}
	}
}

func TestStaleEndpointsIdleHalf(t *testing.T) {
	pods := at(fleetOf(t, "routing_skew/stale-endpoints", 0), 8)
	if pods[0].Running == 0 || pods[1].Running == 0 || pods[2].Running+pods[3].Running > 0 {
		t.Errorf("running: %d %d %d %d", pods[0].Running, pods[1].Running, pods[2].Running, pods[3].Running)
	}
}

// The repeats outlive the peak that started them: the load is the usual one, and the pool stays
// full.
func TestStormOutlivesItsPeak(t *testing.T) {
	f := fleetOf(t, "retry_storm/after-a-peak", 0)
	quiet := at(f, 4.9)[0]
	late := at(f, 18)[0]
	if load := late.Running + late.Waitlist; load < 5*(quiet.Running+quiet.Waitlist) {
		t.Errorf("%d requests before the peak, %d twelve minutes after it", quiet.Running, load)
	}
}

// A gateway that sheds two of three requests lets them through when the fault ends.
func TestSheddingEnds(t *testing.T) {
	f := fleetOf(t, "gateway_failure/shedding", 3*time.Minute)
	errors := func(minute float64) float64 {
		at(f, minute)
		for _, n := range values(f, "llm_d_epp_request_error_total") {
			return n
		}
		return 0
	}
	begin, end, later := errors(5), errors(8), errors(12)
	if end-begin < 100 || later-end > 10 {
		t.Errorf("%g errors during the fault, %g afterwards", end-begin, later-end)
	}
}

// A fault that grows slowly still has its first moment, and full strength where it happens at once.
func TestRampKeepsSuddenEvents(t *testing.T) {
	for id, want := range map[string]func(pods []lab.Pod) bool{
		"cuda_oom/poison-request": func(pods []lab.Pod) bool { return pods[0].Restarts == 2 },
		"cold_start/scale-out":    func(pods []lab.Pod) bool { return len(pods) == 6 && !pods[5].Ready },
	} {
		s, err := story.New(id, 7)
		if err != nil {
			t.Fatal(err)
		}
		s.Faults[0].Shape, s.Faults[0].Ramp = lab.Gradual, 8*time.Minute
		f, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		if pods := at(f, 12); !want(pods) {
			t.Errorf("%s: %+v", id, pods)
		}
	}
}

// A process that leaks GPU memory gives it back when it dies. One beside it does not, and the
// engine dies again and again.
func TestRestartFreesItsOwnMemory(t *testing.T) {
	for id, want := range map[string]func(restarts int) bool{
		"gpu_memory_leak/every-worker":  func(n int) bool { return n == 1 },
		"gpu_memory_leak/video-decoder": func(n int) bool { return n > 3 },
	} {
		f := fleetOf(t, id, 0)
		if p := at(f, 65)[1]; !want(p.Restarts) {
			t.Errorf("%s: %d restarts within an hour", id, p.Restarts)
		}
		for gpu, mib := range values(f, "DCGM_FI_DEV_FB_FREE") {
			if mib < 0 {
				t.Errorf("%s: GPU %s has %g MiB free", id, gpu, mib)
			}
		}
	}
}
