package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A survey without alerts sees problems that the gateway and Kubernetes report, and none if they
// report health.
func TestObserveReadsGatewayAndKubernetes(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	pod, pool := state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0"}, state.Entity{Namespace: "llm", Pool: "vllm"}
	peer, gpu := state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-1"},
		state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0", Node: "gpu-a", GPU: "2"}
	twin := state.Entity{Namespace: "another", Pool: "vllm", Pod: "vllm-0"}
	replicas := func(want, ready float64) []state.Sample {
		return []state.Sample{{Signal: "replicas_desired", Entity: pool, Value: want, At: at},
			{Signal: "replicas_ready", Entity: pool, Value: ready, At: at}}
	}
	clocks := func(mhz, gap float64) []state.Sample { // of vllm-0, beside two peers at 1980 MHz and 25 ms
		out := []state.Sample{{Signal: "itl_p95", Entity: pod, Value: gap, At: at}, {Signal: "itl_p95", Entity: peer, Value: 0.025, At: at}}
		for i, of := range []state.Entity{gpu, {Namespace: "llm", Pool: "vllm", Pod: "vllm-1", Node: "gpu-a", GPU: "0"},
			{Namespace: "llm", Pool: "vllm", Pod: "vllm-1", Node: "gpu-a", GPU: "1"}} {
			out = append(out, state.Sample{Signal: "gpu_util", Entity: of, Value: 95, At: at},
				state.Sample{Signal: "gpu_sm_clock", Entity: of, Value: map[bool]float64{true: mhz, false: 1980}[i == 0], At: at})
		}
		return out
	}
	for name, c := range map[string]struct {
		samples []state.Sample
		want    []state.Symptom
	}{
		"a gateway without endpoints": {[]state.Sample{{Signal: "gateway_ready_endpoints", Entity: pool, At: at}},
			[]state.Symptom{"no_endpoints"}},
		"a gateway that fails": {[]state.Sample{{Signal: "gateway_error_ratio", Entity: pool, Value: 0.2, At: at}},
			[]state.Symptom{"error_rate"}},
		"a worker that is not ready": {[]state.Sample{{Signal: "pod_ready", Entity: pod, At: at}}, []state.Symptom{"worker_down"}},
		"a crash loop": {
			[]state.Sample{{Signal: "pod_waiting_reason", Entity: pod, Value: 1, Text: "CrashLoopBackOff", At: at}},
			[]state.Symptom{"crash_loop"}},
		"a worker that is its page": {
			[]state.Sample{{Signal: "kv_usage", Entity: state.Entity{Instance: "10.0.0.1:8000"}, Value: 0.99, At: at}},
			[]state.Symptom{"kv_pressure"}},
		"a worker that stands beside an idle one of its name": {[]state.Sample{
			{Signal: "requests_running", Entity: pod, Value: 50, At: at}, {Signal: "generation_tokens_rate", Entity: pod, At: at},
			{Signal: "requests_running", Entity: twin, At: at}, {Signal: "generation_tokens_rate", Entity: twin, At: at},
		}, []state.Symptom{"throughput_drop"}},
		"a pool's own figure is no worker's": {[]state.Sample{{Signal: "requests_waiting", Entity: pool, Value: 99, At: at}},
			nil},
		"a pod that starts beside all that are wanted": {
			append(replicas(2, 2), state.Sample{Signal: "pod_ready", Entity: pod, At: at}, state.Sample{Signal: "up", Entity: pod, At: at}),
			nil},
		"a pod that is wanted and not ready": {append(replicas(2, 1), state.Sample{Signal: "pod_ready", Entity: pod, At: at}),
			[]state.Symptom{"worker_down"}},
		"a page that fails while its pod is ready": {
			append(replicas(2, 2), state.Sample{Signal: "pod_ready", Entity: pod, Value: 1, At: at},
				state.Sample{Signal: "up", Entity: pod, At: at}), []state.Symptom{"target_down"}},
		"a dead node whose workers were replaced": {
			append(replicas(2, 2), state.Sample{Signal: "pod_ready", Entity: pod, At: at},
				state.Sample{Signal: "node_ready", Entity: state.Entity{Node: "gpu-a"}, At: at}),
			[]state.Symptom{"worker_down"}},
		"a GPU that is too hot": {[]state.Sample{{Signal: "gpu_clock_event", Entity: gpu, Value: 127, Text: "hw_thermal", At: at},
			{Signal: "gpu_clock_event", Entity: gpu, Value: 127, Text: "hw_slowdown", At: at}},
			[]state.Symptom{"gpu_throttled"}},
		"a power brake": {
			[]state.Sample{{Signal: "gpu_clock_event", Entity: gpu, Value: 3, Text: "hw_power_brake", At: at}},
			[]state.Symptom{"gpu_throttled"}},
		"a power cap is normal": {
			[]state.Sample{{Signal: "gpu_clock_event", Entity: gpu, Value: 900, Text: "power_cap", At: at}}, nil},
		"a GPU whose clock and worker are slow": {clocks(1112, 0.05), []state.Symptom{"gpu_throttled"}},
		"a slow clock that nobody feels":        {clocks(1112, 0.03), nil},
		"a slow worker at full clock":           {clocks(1600, 0.05), nil},
		"a slow clock that the driver explains by a power cap": {
			append(clocks(1112, 0.05), state.Sample{Signal: "gpu_clock_event", Entity: gpu, Value: 9, Text: "power_cap", At: at}), nil},
		"clients that hang up": {
			[]state.Sample{{Signal: "abort_rate", Entity: pod, Value: 0.08, At: at},
				{Signal: "finish_rate", Entity: pod, Value: 0.1, At: at},
				{Signal: "abort_rate", Entity: peer, Value: 0.07, At: at}, {Signal: "finish_rate", Entity: peer, Value: 0.1, At: at}},
			[]state.Symptom{"aborts"}},
		"one worker's clients hang up": {
			[]state.Sample{{Signal: "abort_rate", Entity: pod, Value: 0.4, At: at},
				{Signal: "finish_rate", Entity: pod, Value: 0.2, At: at},
				{Signal: "abort_rate", Entity: peer, Value: 0, At: at}, {Signal: "finish_rate", Entity: peer, Value: 5, At: at}},
			[]state.Symptom{"aborts"}},
		"a frontend whose clients hang up": {
			[]state.Sample{{Signal: "abort_rate", Entity: pool, Value: 0.4, At: at},
				{Signal: "finish_rate", Entity: pool, Value: 0.2, At: at}}, []state.Symptom{"aborts"}},
		"some clients always hang up": {
			[]state.Sample{{Signal: "abort_rate", Entity: pod, Value: 0.2, At: at}, {Signal: "finish_rate", Entity: pod, Value: 2, At: at},
				{Signal: "abort_rate", Entity: peer, Value: 0.01, At: at}, {Signal: "finish_rate", Entity: peer, Value: 0.01, At: at}},
			nil},
		"all is well": {
			[]state.Sample{{Signal: "gateway_ready_endpoints", Entity: pool, Value: 4, At: at},
				{Signal: "gateway_error_ratio", Entity: pool, Value: 0.01, At: at},
				{Signal: "pod_ready", Entity: pod, Value: 1, At: at}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []state.Symptom
			for _, s := range evidence.Observe(&state.Evidence{At: at, Samples: c.samples}) {
				got = append(got, s.Symptom)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A KV cache that is held while nothing runs is not reported as full, unless another worker's is.
func TestObserveDistinguishesHeldFromFullCache(t *testing.T) {
	c := rulestest.MustLoad(t)
	pod := state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0"}
	samples := []state.Sample{{Signal: "kv_idle_usage", Entity: pod, Value: 0.147}}
	for want, samples := range map[string][]state.Sample{
		"KV cache is held while nothing runs": samples,
		"KV cache is nearly full": append(samples,
			state.Sample{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-1"}, Value: 0.95}),
	} {
		ev := state.Evidence{Samples: samples}
		in := state.Incident{Scope: state.Scope{Namespace: "llm", Pool: "vllm"}, Symptoms: evidence.Observe(&ev)}
		if got := c.SymptomTitle(in.Symptoms[0]); len(in.Symptoms) != 1 || got != want {
			t.Errorf("%d symptoms: %s", len(in.Symptoms), got)
		}
		if title := unknownTitle(c, &in); !strings.Contains(title, want) {
			t.Error(title)
		}
	}
}
