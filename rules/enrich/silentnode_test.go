package enrich

import (
	"testing"
	"time"

	"paramedic/state"
)

// Only a machine or its network takes both the workers and the GPU exporter of a node.
func TestSilentNode(t *testing.T) {
	up := func(node string, v float64) state.Sample {
		return state.Sample{Signal: "up", Entity: state.Entity{Node: node, Pod: "on-" + node}, Value: v}
	}
	gpu := func(signal, node string) state.Sample {
		return state.Sample{Signal: signal, Entity: state.Entity{Node: node, GPU: "0"}, Value: 50}
	}
	for name, c := range map[string]struct {
		samples []state.Sample
		want    map[string]float64
	}{
		"nothing answers": {
			[]state.Sample{up("a", 0), gpu("gpu_util_hours", "a"), up("b", 1), gpu("gpu_util", "b")},
			map[string]float64{"a": 1, "b": 0}},
		"the worker crashed": {
			[]state.Sample{up("a", 0), gpu("gpu_util", "a"), up("b", 1), gpu("gpu_util", "b")},
			map[string]float64{"a": 0, "b": 0}},
		"the exporter crashed": {
			[]state.Sample{up("a", 1), gpu("gpu_util_hours", "a"), up("b", 1), gpu("gpu_util", "b")},
			map[string]float64{"a": 0, "b": 0}},
		"all GPUs of the node are gone, its exporter answers": {
			[]state.Sample{up("a", 0), gpu("gpu_util_hours", "a"), up("b", 1), gpu("gpu_util", "b"),
				{Signal: "up", Entity: state.Entity{Node: "a", Instance: "10.0.0.1:9400"}, Value: 1}},
			map[string]float64{"a": 0, "b": 0}},
		"the node never had an exporter": {
			[]state.Sample{up("a", 0), up("b", 1), gpu("gpu_util", "b")}, map[string]float64{"b": 0}},
		"no exporter answers anywhere": {
			[]state.Sample{up("a", 0), gpu("gpu_util_hours", "a"), up("b", 1), gpu("gpu_util_hours", "b")}, nil},
		"no worker answers anywhere": {
			[]state.Sample{up("a", 0), gpu("gpu_util_hours", "a"), up("b", 0), gpu("gpu_util", "b")}, nil},
	} {
		ev := state.Evidence{At: time.Unix(1000, 0), Samples: c.samples}
		silentNodes(&ev)
		got := map[string]float64{}
		for _, s := range ev.Samples[len(c.samples):] {
			got[s.Entity.Node] = s.Value
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for node, v := range c.want {
			if got[node] != v {
				t.Errorf("%s: %s is %v, want %v", name, node, got[node], v)
			}
		}
	}
}
