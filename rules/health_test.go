package rules

import (
	"testing"

	"paramedic/state"
)

func TestHealthCountsGroupsAndTellsPhasesApart(t *testing.T) {
	high, low := 0.97, 0.4
	ev := state.Evidence{Workers: ring(), Samples: []state.Sample{
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pod: "ring-1"}, Value: high},
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pod: "fill-6c7d8f9b5-xxxx2"}, Value: low},
	}}
	got := map[string]PoolHealth{}
	for _, p := range Health("default", ev) {
		got[p.Pool] = p
	}
	if p := got["ring"]; p.Workers != 2 || p.Pods != 4 || p.Role != "decode" || p.Owner != "LLMInferenceService/llama-svc" || len(p.Routes) != 2 || p.Overall != HealthCritical {
		t.Errorf("ring: %+v", p)
	}
	if p := got["fill"]; p.Workers != 1 || p.Pods != 1 || p.Role != "prefill" || p.Overall != Healthy {
		t.Errorf("fill: %+v", p)
	}
}
