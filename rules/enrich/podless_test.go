package enrich

import (
	"testing"

	"paramedic/state"
)

// Where workers are known by address only, a GPU whose exporter names its pod may be any worker's.
func TestGPUOfUnknownWorkerIsKept(t *testing.T) {
	gpu := state.Entity{Namespace: "llm", Pod: pod0, Node: "node-1", GPU: "0"}
	named, byAddress := gpu, state.Entity{Model: "llama", Instance: "10.42.1.7:8000"}
	named.Pool = "vllm-llama"
	ofOther := byAddress
	ofOther.Namespace = "other"
	for name, c := range map[string]struct {
		scope  state.Scope
		worker state.Entity
		want   []state.Entity
	}{
		"workers with addresses":       {state.Scope{Model: "llama"}, byAddress, []state.Entity{{Node: "node-1", GPU: "0"}}},
		"a pod that an alert names":    {state.Scope{Model: "llama", Pods: []string{pod0}}, byAddress, []state.Entity{named}},
		"a GPU of another namespace":   {state.Scope{Namespace: "other", Model: "llama"}, ofOther, nil},
		"workers with pods of a model": {state.Scope{Namespace: "llm", Model: "qwen"}, state.Entity{Namespace: "llm", Model: "qwen", Pod: "vllm-qwen-7d9f8b6c5-abcd2"}, nil},
	} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", c.worker, 0.9), sampleOf("gpu_xid", gpu, 119)}}}
		r := request("kv_usage", "gpu_xid")
		r.Scope = c.scope
		var got []state.Entity
		for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Samples {
			if s.Signal == "gpu_xid" {
				s.Entity.Cluster = ""
				got = append(got, s.Entity)
			}
		}
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%s: GPUs %+v, want %+v", name, got, c.want)
		}
	}
}

// A gateway counts for the pool that the alert names, also where no worker shows its pool.
func TestGatewayOfUnknownWorkersIsKept(t *testing.T) {
	prom := &fixed{reading: Reading{Samples: []state.Sample{
		sampleOf("kv_usage", state.Entity{Model: "llama", Instance: "10.42.1.7:8000"}, 0.9),
		sampleOf("gateway_error_ratio", state.Entity{Namespace: "llm", Pool: "vllm-llama"}, 0.3),
		sampleOf("gateway_error_ratio", state.Entity{Namespace: "llm", Pool: "checkout"}, 0.1)}}}
	r := request("kv_usage", "gateway_error_ratio")
	r.Scope = state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	var got []string
	for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Samples {
		if s.Signal == "gateway_error_ratio" {
			got = append(got, s.Entity.Pool)
		}
	}
	if len(got) != 1 || got[0] != "vllm-llama" {
		t.Errorf("the gateway's series of the pools %v are read, want those of vllm-llama", got)
	}
}
