package score

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/rules/enrich"
	"paramedic/rules/signals"
)

// The last log line of a simulated container is classified as an API server's status would be, for
// its pod only.
func TestContainerExitsAreClassified(t *testing.T) {
	for fault, want := range map[string]string{lab.CUDAOOM: "cuda_oom", lab.GPUFault: "gpu_error", lab.OOMKilled: ""} {
		s, err := drill.New(fault, 8)
		if err != nil {
			t.Fatal(err)
		}
		fleet, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		source := LastWords(func() []*lab.Fleet { return []*lab.Fleet{fleet} })
		q := enrich.Query{Cluster: "default", Signals: []signals.Signal{{ID: "kv_usage"}, {ID: "pod_last_error"}}}
		if r := source.Read(t.Context(), q); len(r.Samples) != 0 {
			t.Errorf("%s: a healthy fleet's last words are %v", fault, r.Samples)
		}
		fleet.Advance(fleet.Start().Add(10 * time.Minute))
		died := map[string]bool{}
		for _, p := range fleet.Pods() {
			died[p.Name] = p.Restarts > 0
		}
		got := source.Read(t.Context(), q).Samples
		if want == "" && len(got) > 0 || want != "" && len(got) == 0 {
			t.Errorf("%s: %d last words", fault, len(got))
		}
		for _, sample := range got {
			if sample.Text != want || !died[sample.Entity.Pod] || sample.Entity.Namespace != "llm" {
				t.Errorf("%s: %+v", fault, sample)
			}
		}
	}
}
