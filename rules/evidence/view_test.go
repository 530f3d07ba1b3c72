package evidence

import (
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// A kubelet answers on the node of a worker that does not, and is no worker itself.
func TestExporterIsNoWorker(t *testing.T) {
	c := rulestest.MustLoad(t)
	worker := state.Worker{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "llama-70b", Node: "node-1",
		Instance: "10.42.0.7:8000"}
	ev := &state.Evidence{At: rulestest.Now, Workers: []state.Worker{worker}, Samples: []state.Sample{
		{Signal: "up", Entity: state.Entity{Instance: worker.Instance}, Value: 0, At: rulestest.Now},
		{Signal: "up", Entity: state.Entity{Namespace: "kube-system", Instance: "10.10.0.12:10250", Node: "node-1"}, Value: 1,
			At: rulestest.Now},
		{Signal: "up", Entity: state.Entity{Instance: "10.10.0.12:9100", Node: "node-1"}, Value: 1, At: rulestest.Now},
	}}
	for _, scope := range []state.Scope{{}, {Namespace: "llm", Pool: "vllm-llama"}, {Nodes: []string{"node-1"}}} {
		v := ArrangeScope(&state.Incident{}, scope, ev, c)
		if len(v.pods) != 1 || v.pods[0].pod != worker.Pod || v.signals["up"].Whole.Max.V != 0 {
			t.Errorf("%+v: %d workers are asked, the best of them is up: %+v", scope, len(v.pods), v.signals["up"].Whole.Max)
		}
	}
}

// A worker that was replaced is in the sums of the last hour, and exports nothing any more.
func TestReplacedWorkerIsNotInQuestion(t *testing.T) {
	c := rulestest.MustLoad(t)
	pod := func(name string) state.Entity {
		return state.Entity{Namespace: "llm", Pod: name, Pool: "vllm-llama", Model: "llama-70b", Node: "node-1"}
	}
	serves, gone := pod("vllm-llama-7d9f8b6c5-aaaaa"), pod("vllm-llama-5c8d7f6b9-zzzzz")
	ev := &state.Evidence{At: rulestest.Now,
		Workers: []state.Worker{{Namespace: "llm", Pod: serves.Pod, Pool: serves.Pool, Model: serves.Model, Node: "node-1"}},
		Samples: []state.Sample{
			{Signal: "container_memory_mean", Entity: serves, Value: 1, At: rulestest.Now},
			{Signal: "container_memory_mean", Entity: gone, Value: 1, At: rulestest.Now},
		}}
	v := ArrangeScope(&state.Incident{}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, ev, c)
	if got := v.InQuestion(nil); len(got) != 1 || got[0].pod != serves.Pod {
		t.Errorf("%d workers are in question, want only %s", len(got), serves.Pod)
	}
	if got := v.InQuestion([]string{gone.Pod}); len(got) != 1 {
		t.Errorf("%d workers are in question, want the one of the verdict", len(got))
	}
}
