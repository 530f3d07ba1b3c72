package enrich

import (
	"testing"
	"time"

	"paramedic/state"
)

// The value of a worker with two models has the time of the older page.
func TestValueOfTwoModelsHasTheOlderTime(t *testing.T) {
	of := func(model string, at time.Time) state.Sample {
		s := sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: model}, 0.9)
		s.At = at
		return s
	}
	kube := &fixed{reading: Reading{Workers: []state.Worker{{Namespace: "llm", Pod: pod0, Pool: "vllm-llama"}}}}
	prom := &fixed{reading: Reading{Samples: []state.Sample{of("qwen", now), of("deepseek", now.Add(-time.Minute))}}}
	ev := gatherer(t, Cluster{Prometheus: prom, Kubernetes: kube}).Gather(t.Context(), request("kv_usage"))
	if len(ev.Samples) != 1 || !ev.Samples[0].At.Equal(now.Add(-time.Minute)) {
		t.Errorf("%+v", ev.Samples)
	}
}
