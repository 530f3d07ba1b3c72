package prometheus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A Deployment keeps ten old ReplicaSets. The newest one gives the last rollout, in any order of
// the series.
func TestRolloutAgeIsOfTheNewestReplicaSet(t *testing.T) {
	for _, sets := range []map[string]time.Duration{
		{"vllm-llama-5f6d4c9b8": 20 * time.Minute, "vllm-llama-7d9f8b6c5": 240 * time.Hour, "vllm-llama-9cc48d7b6": 90 * time.Hour},
		{"vllm-llama-9cc48d7b6": 20 * time.Minute, "vllm-llama-7d9f8b6c5": 240 * time.Hour, "vllm-llama-5f6d4c9b8": 90 * time.Hour},
	} {
		s := fleet()
		sets["vllm-llama-rerank-6b8c9d7f5"], sets["vllm-llama-small"] = 3*time.Minute,
			5*time.Minute // of another Deployment, and one without a Deployment
		for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
			for name, age := range sets {
				if created := now.Add(-age); !created.After(at) {
					s.add(map[string]string{"__name__": "kube_replicaset_created", "namespace": "llm", "replicaset": name,
						"job": "kube-state-metrics", "instance": "10.0.1.1:8080"}, at, float64(created.Unix()))
				}
			}
		}
		r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
		ages := map[string]float64{}
		for _, sm := range r.Samples {
			if sm.Signal == "rollout_age" {
				ages[sm.Entity.Pool] = sm.Value
			}
		}
		if d := cmp.Diff(map[string]float64{"vllm-llama": 1200, "vllm-llama-rerank": 180, "vllm-llama-small": 300}, ages); d != "" {
			t.Error(d)
		}
	}
}

// Several series of one entity from one scrape are combined as the signal defines, independent of
// their order.
func TestSeriesOfOneScrapeAreCombined(t *testing.T) {
	for _, order := range [][]float64{{3, 1, 2}, {1, 2, 3}, {2, 3, 1}} {
		for how, want := range map[signals.Combine]float64{signals.CombineMin: 1, signals.CombineMax: 3} {
			var p enrich.Parts
			for _, v := range order {
				p.Add("10.0.0.1:8080", "ksm", v)
			}
			if got := p.Value(how); got != want {
				t.Errorf("%s of %v is %g", how, order, got)
			}
		}
	}
}
