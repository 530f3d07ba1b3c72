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
	for name, c := range map[string]struct {
		samples []state.Sample
		want    []state.Symptom
	}{
		"a gateway without endpoints": {[]state.Sample{{Signal: "gateway_ready_endpoints", Entity: pool, At: at}}, []state.Symptom{"no_endpoints"}},
		"a gateway that fails":        {[]state.Sample{{Signal: "gateway_error_ratio", Entity: pool, Value: 0.2, At: at}}, []state.Symptom{"error_rate"}},
		"a worker that is not ready":  {[]state.Sample{{Signal: "pod_ready", Entity: pod, At: at}}, []state.Symptom{"worker_down"}},
		"a crash loop":                {[]state.Sample{{Signal: "pod_waiting_reason", Entity: pod, Value: 1, Text: "CrashLoopBackOff", At: at}}, []state.Symptom{"crash_loop"}},
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
