package casetest

import (
	"strings"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/health"
	"paramedic/rules/rulestest"
	"paramedic/rules/topology"
	"paramedic/state"
)

func TestCorrelateResolvesGroupsOwnersAndRouters(t *testing.T) {
	c := rulestest.MustLoad(t)
	type labels = map[string]string
	for name, tt := range map[string]struct {
		alerts []labels
		same   bool
	}{
		"a leader and the machine of its rank": {
			[]labels{{"alertname": "EngineHang", "pod": "ring-0", "namespace": "llm"},
				{"alertname": "DCGMXidErrors", "Hostname": "node-2", "gpu": "0"}}, true},
		"a leader and its rank": {
			[]labels{{"alertname": "KubePodCrashLooping", "pod": "ring-0-1", "namespace": "llm"},
				{"alertname": "Odd", "pod": "ring-0", "namespace": "llm"}}, true},
		"a pool and the InferencePool before it": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "solo-0", "namespace": "llm"},
				{"alertname": "EPPHighErrorRatio", "inference_pool": "qwen-pool", "namespace": "llm"}}, true},
		"a pool and another's InferencePool": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "solo-0", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "inference_pool": "llama-pool", "namespace": "llm"}}, false},
		"a picker's own metrics call the pool name": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "solo-0", "namespace": "llm"},
				{"alertname": "EPPNoReadyEndpoints", "name": "qwen-pool", "namespace": "llm"}}, true},
		"so they do the pool of another": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "solo-0", "namespace": "llm"},
				{"alertname": "EPPNoReadyEndpoints", "name": "llama-pool", "namespace": "llm"}}, false},
		"one of two pools behind an InferencePool": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "fill-6c7d8f9b5-xxxx2", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "inference_pool": "llama-pool", "namespace": "llm"}}, true},
		"prefill and decode of one model stay two": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "fill-6c7d8f9b5-xxxx2", "namespace": "llm"},
				{"alertname": "KVCacheNearFull", "pod": "ring-1", "namespace": "llm"}}, false},
		"a pool and the resource that it was made of": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "ring-1", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "workload": "llama-svc", "namespace": "llm"}}, true},
		"the same name in a namespace of its own": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "ring-1", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "workload": "llama-svc", "namespace": "web"}}, false},
		"a pool and the Deployment of its ranks": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "big-predictor-6c7d8f9b5-xxxx2", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "deployment": "big-predictor-worker", "namespace": "llm"}}, true},
		"two leaders of one pool are of one pool still": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "ring-1", "namespace": "llm"},
				{"alertname": "KVCacheNearFull", "pod": "ring-0", "namespace": "llm"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := correlated(c, rulestest.Ring(), tt.alerts...)
			if same := got[0] == got[len(got)-1]; same != tt.same {
				t.Errorf("incidents %v", got)
			}
		})
	}
}

func TestGroupCountsAsOneWorker(t *testing.T) {
	c, workers := rulestest.MustLoad(t), rulestest.Ring()
	ev := &state.Evidence{At: rulestest.Now, Workers: workers}
	scope := state.Scope{Namespace: "llm", Pool: "ring"}
	v := evidence.ArrangeScope(&state.Incident{}, scope, ev, c)
	if v.Workers() != 2 || len(v.Pods()) != 4 {
		t.Errorf("%d workers of %d pods", v.Workers(), len(v.Pods()))
	}
	for pods, want := range map[string]int{"ring-0": 1, "ring-0 ring-0-1": 1, "ring-0 ring-1-1": 2, "ring-0 ring-0-1 ring-1": 2} {
		if got := v.EnginesOf(strings.Fields(pods)); got != want {
			t.Errorf("%s are %d workers, want %d", pods, got, want)
		}
	}
	// A node's incident is about every engine that has a rank on it, even if the leader is on
	// another node.
	v = evidence.ArrangeScope(&state.Incident{}, state.Scope{Nodes: []string{"node-2"}}, ev, c)
	if v.Workers() != 1 || len(v.Pods()) != 2 {
		t.Errorf("on node-2: %d workers of %d pods", v.Workers(), len(v.Pods()))
	}
}

// twoModelService returns a RayService of two models: an engine of two pods, and two of one pod
// each.
func twoModelService() []state.Worker {
	var out []state.Worker
	for _, w := range []state.Worker{
		{Pod: "chat-w1", Node: "node-1", Group: "x1", Model: "deepseek"}, {Pod: "chat-w2", Node: "node-2", Group: "x1", Model: "deepseek"},
		{Pod: "chat-w3", Node: "node-3", Model: "qwen-7b"}, {Pod: "chat-w4", Node: "node-4", Model: "qwen-7b"},
	} {
		w.Namespace, w.Pool, w.PoolKind = "llm", "chat", "RayService"
		out = append(out, w)
	}
	return out
}

// A pool of several models has no model of its own; an alert on any of its models is about it.
func TestPoolOfSeveralModelsHasNoModel(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := &state.Evidence{At: rulestest.Now, Workers: twoModelService()}
	for model, want := range map[string]int{"": 3, "deepseek": 1, "Qwen-7B": 2, "llama": 0} {
		if v := evidence.ArrangeScope(&state.Incident{}, state.Scope{Namespace: "llm", Pool: "chat", Model: model}, ev, c); v.Workers() != want {
			t.Errorf("model %q has %d workers, want %d", model, v.Workers(), want)
		}
	}
	top := topology.NewTopology(ev.Workers)
	if s := top.Correct(state.Scope{Namespace: "llm", Pool: "chat"}); s.Model != "" {
		t.Errorf("the pool is taken for one of %s", s.Model)
	}
	for _, model := range []string{"deepseek", "qwen-7b"} {
		if e := top.Resolve(state.Entity{Model: model}); e.Pool != "chat" || e.Model != model {
			t.Errorf("%s is in %+v", model, e)
		}
	}
	type labels = map[string]string
	for name, tt := range map[string]struct {
		alerts []labels
		same   bool
	}{
		"a pod and its model": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "chat-w4", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "model_name": "qwen-7b"}}, true},
		"a pod and another model": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "chat-w4", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "model_name": "deepseek"}}, false},
		"pods of two models": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "chat-w4", "namespace": "llm"},
				{"alertname": "KVCacheNearFull", "pod": "chat-w1", "namespace": "llm"}}, false},
		"the ranks of an engine": {
			[]labels{{"alertname": "EngineHang", "pod": "chat-w1", "namespace": "llm"},
				{"alertname": "DCGMXidErrors", "Hostname": "node-2", "gpu": "0"}}, true},
	} {
		got := correlated(c, ev.Workers, tt.alerts...)
		if same := got[0] == got[1]; same != tt.same {
			t.Errorf("%s: incidents %v", name, got)
		}
	}
	pools := health.Of("default", *ev)
	if len(pools) != 1 || pools[0].Model != "deepseek, qwen-7b" || pools[0].Workers != 3 || pools[0].Pods != 4 {
		t.Errorf("health: %+v", pools)
	}
}

// Conditions on a pool of several models read all of its workers.
func TestPoolOfSeveralModelsShowsPathologies(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := state.Evidence{At: rulestest.Now, Workers: twoModelService()}
	e := state.Entity{Namespace: "llm", Pool: "chat", Pod: "chat-w4", Model: "qwen-7b", Node: "node-4"}
	for signal, v := range map[string]float64{"kv_usage": .99, "preemption_rate": 2} {
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: e, Value: v, Unit: c.Units()[signal], At: rulestest.Now})
	}
	pools := health.OfCatalog(c, "default", ev)
	if len(pools) != 1 || len(pools[0].Pathologies) != 1 || pools[0].Pathologies[0].ID != "preemption_storm" {
		t.Fatalf("health: %+v", pools)
	}
	if s := pools[0].Scope(); s.Pool != "chat" || s.Model != "" {
		t.Errorf("its scope is %+v", s)
	}
	one := health.Of("default", state.Evidence{Workers: twoModelService()[:2]})
	if s := one[0].Scope(); s.Model != "deepseek" {
		t.Errorf("the scope of a pool of one model is %+v", s)
	}
}

// An alert that names only a model is not about pools of other models.
func TestModelAlertMeansPoolsThatServeIt(t *testing.T) {
	other := state.Worker{Namespace: "llm", Pool: "llama", PoolKind: "Deployment", Pod: "llama-1", Model: "llama"}
	top := topology.NewTopology(append(twoModelService(), other, state.Worker{Namespace: "llm", Pool: "both", Pod: "both-1", Model: "LLaMA"},
		state.Worker{Namespace: "llm", Pool: "both", Pod: "both-2", Model: "qwen-7b"}))
	for model, want := range map[string]string{"llama": "both llama", "Qwen-7B": "both chat", "deepseek": "chat", "": "both chat llama"} {
		var got []string
		for _, s := range top.PoolsIn(state.Scope{Namespace: "llm", Model: model}) {
			got = append(got, s.Pool)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q may be in %v, want %s", model, got, want)
		}
	}
}
