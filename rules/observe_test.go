package rules

import (
	"slices"
	"testing"
	"time"

	"paramedic/state"
)

// A look that no alert has called for sees what the gateway and Kubernetes say, and nothing where they say that all is well.
func TestALookSeesWhatGatewayAndKubernetesSay(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	pod, pool := state.Entity{Namespace: "llm", Pool: "vllm", Pod: "vllm-0"}, state.Entity{Namespace: "llm", Pool: "vllm"}
	twin := state.Entity{Namespace: "another", Pool: "vllm", Pod: "vllm-0"}
	for name, c := range map[string]struct {
		samples []state.Sample
		want    []state.Symptom
	}{
		"a gateway without endpoints": {[]state.Sample{{Signal: "gateway_ready_endpoints", Entity: pool, At: at}}, []state.Symptom{"no_endpoints"}},
		"a gateway that fails":        {[]state.Sample{{Signal: "gateway_error_ratio", Entity: pool, Value: 0.2, At: at}}, []state.Symptom{"error_rate"}},
		"a worker that is not ready":  {[]state.Sample{{Signal: "pod_ready", Entity: pod, At: at}}, []state.Symptom{"worker_down"}},
		"a crash loop":                {[]state.Sample{{Signal: "pod_waiting_reason", Entity: pod, Value: 1, Text: "CrashLoopBackOff", At: at}}, []state.Symptom{"crash_loop"}},
		"a worker that is its page":   {[]state.Sample{{Signal: "kv_usage", Entity: state.Entity{Instance: "10.0.0.1:8000"}, Value: 0.99, At: at}}, []state.Symptom{"kv_pressure"}},
		"a worker that stands beside an idle one of its name": {[]state.Sample{
			{Signal: "requests_running", Entity: pod, Value: 50, At: at}, {Signal: "generation_tokens_rate", Entity: pod, At: at},
			{Signal: "requests_running", Entity: twin, At: at}, {Signal: "generation_tokens_rate", Entity: twin, At: at},
		}, []state.Symptom{"throughput_drop"}},
		"a pool's own figure is no worker's": {[]state.Sample{{Signal: "requests_waiting", Entity: pool, Value: 99, At: at}}, nil},
		"all is well": {[]state.Sample{{Signal: "gateway_ready_endpoints", Entity: pool, Value: 4, At: at}, {Signal: "gateway_error_ratio", Entity: pool, Value: 0.01, At: at},
			{Signal: "pod_ready", Entity: pod, Value: 1, At: at}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []state.Symptom
			for _, s := range Observe(&state.Evidence{At: at, Samples: c.samples}) {
				got = append(got, s.Symptom)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
