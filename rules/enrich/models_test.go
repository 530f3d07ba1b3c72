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

// An engine reports the first of a model's names, and an alert may have another one. The pool is
// the same.
func TestAliasOfAModelKeepsTheEvidence(t *testing.T) {
	worker := state.Entity{Namespace: "llm", Pod: pod0, Model: "meta-llama/Llama-3.1-70B"}
	for name, c := range map[string]struct {
		scope state.Scope
		want  int
	}{
		"another name":               {state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama-chat"}, 1},
		"its own name":               {state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "meta-llama/llama-3.1-70b"}, 1},
		"another name, pool unknown": {state.Scope{Namespace: "llm", Model: "llama-chat"}, 0},
		"another model's pool":       {state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "qwen"}, 0},
	} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", worker, 0.9),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: "vllm-qwen-7d9f8b6c5-bbbbb", Model: "qwen"}, 0.1)}}}
		r := request("kv_usage")
		r.Scope = c.scope
		n := 0
		for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Samples {
			if s.Entity.Pod == pod0 {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d samples of the pool, want %d", name, n, c.want)
		}
	}
}

// A pod of a group whose suffix has no digit belongs to the pool of the pods that are named alike.
func TestSuffixWithoutADigitJoinsItsPeers(t *testing.T) {
	var samples []state.Sample
	for _, pod := range []string{"rs-decode-worker-b2dfg", "rs-decode-worker-bcdfg", "alone-bcdfg"} {
		samples = append(samples, sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod, Model: "llama"}, 0.9))
	}
	r := request("kv_usage")
	r.Scope = state.Scope{Namespace: "llm", Model: "llama"}
	got := map[string]string{}
	for _, w := range gatherer(t, Cluster{Prometheus: &fixed{reading: Reading{Samples: samples}}}).Gather(t.Context(), r).Workers {
		got[w.Pod] = w.Pool
	}
	if got["rs-decode-worker-bcdfg"] != "rs-decode-worker" || got["rs-decode-worker-b2dfg"] != "rs-decode-worker" || got["alone-bcdfg"] != "" {
		t.Errorf("pools: %v", got)
	}
}

// The limit of a sidecar is not that of an engine without one, which uses more.
func TestLimitOfASidecarIsDropped(t *testing.T) {
	for limit, want := range map[float64]int{1 << 30: 0, 64 << 30: 1} {
		e := state.Entity{Namespace: "llm", Pod: pod0}
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama"}, 0.9),
			sampleOf("container_memory", e, 20<<30), sampleOf("container_memory_limit", e, limit)}}}
		n := 0
		for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), request("kv_usage", "container_memory", "container_memory_limit")).Samples {
			if s.Signal == "container_memory_limit" {
				n++
			}
		}
		if n != want {
			t.Errorf("a limit of %.0f: %d samples, want %d", limit, n, want)
		}
	}
}

// Evicted pods stay on record in kube-state-metrics. They are no workers, unless an alert names
// one.
func TestEndedPodsAreNoWorkers(t *testing.T) {
	evicted := state.Entity{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-evict"}
	for name, c := range map[string]struct {
		pods []string
		want int
	}{"of the pool": {nil, 1}, "that an alert names": {[]string{evicted.Pod}, 2}} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama"}, 0.9),
			sampleOf("pod_ready", state.Entity{Namespace: "llm", Pod: pod0}, 1), sampleOf("pod_ready", evicted, 0), sampleOf("pod_ended", evicted, 1)}}}
		r := request("kv_usage", "pod_ready", "pod_ended")
		r.Scope = state.Scope{Namespace: "llm", Pool: "vllm-llama", Pods: c.pods}
		ev := gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r)
		n := 0
		for _, s := range ev.Samples {
			if s.Signal == "pod_ready" {
				n++
			}
		}
		if n != c.want || len(ev.Workers) != c.want {
			t.Errorf("%s: %d samples of %d workers, want %d", name, n, len(ev.Workers), c.want)
		}
	}
}
