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

// Pods of one name in two namespaces are two, and an engine that is known by its address alone is not the pod of what names none.
func TestHealthKeepsPoolsApart(t *testing.T) {
	ev := state.Evidence{Workers: []state.Worker{
		{Namespace: "a", Pool: "vllm", Pod: "vllm-0", Model: "m"}, {Namespace: "b", Pool: "vllm", Pod: "vllm-0", Model: "n"}, {Model: "bare", Instance: "10.0.0.7:8000"},
	}, Samples: []state.Sample{
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "a", Pod: "vllm-0"}, Value: 0.97},
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "b", Pod: "vllm-0"}, Value: 0.4},
		{Signal: "ttft_p95", Entity: state.Entity{Namespace: "b", Pool: "vllm", Model: "n"}, Value: 9},
	}}
	for _, p := range Health("default", ev) {
		if want := map[string]HealthStatus{"a": HealthCritical, "b": HealthCritical, "": HealthUnknown}[p.Namespace]; p.Overall != want {
			t.Errorf("%s/%s %s: %s, want %s", p.Namespace, p.Pool, p.Model, p.Overall, want)
		}
		if p.Namespace == "b" && *p.Checks["kv_cache"].Value != 0.4 {
			t.Errorf("the cache of b: %+v", p.Checks["kv_cache"])
		}
	}
}
