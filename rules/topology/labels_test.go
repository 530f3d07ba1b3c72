package topology

import (
	"testing"

	"paramedic/state"
)

// The exporter's metrics of a link name the GPU's model as if it were a served one.
func TestLinkOfAGPUHasNoServedModel(t *testing.T) {
	got := EntityOf(state.Alert{Labels: map[string]string{"nvlink": "3", "gpu": "1", "gpu_uuid": "GPU-1", "Hostname": "node-3",
		"model_name": "NVIDIA H100 80GB HBM3"}}, "default", Source{})
	if want := (state.Entity{Cluster: "default", Node: "node-3", GPU: "1"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
