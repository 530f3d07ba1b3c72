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
