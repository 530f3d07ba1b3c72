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

// The Deployment has five ReplicaSets and goes back to one that is days old. Nothing but the
// replicas of the ReplicaSets shows when. Another Deployment was scaled from zero, which is no
// rollout, and a third one has an old ReplicaSet that never changed.
func TestRollbackBeginsWithReplicasOfOldReplicaSet(t *testing.T) {
	back, restart := now.Add(-10*time.Minute), now.Add(-20*time.Minute)
	type set struct {
		age      time.Duration
		replicas func(at time.Time) float64
	}
	never := func(time.Time) float64 { return 0 }
	until := func(end time.Time) func(time.Time) float64 {
		return func(at time.Time) float64 {
			if at.Before(end) {
				return 3
			}
			return 0
		}
	}
	from := func(begin time.Time) func(time.Time) float64 {
		return func(at time.Time) float64 { return 3 - until(begin)(at) }
	}
	sets := map[string]set{
		"vllm-llama-5f6d4c9b8": {2 * time.Hour, until(back)}, "vllm-llama-7d9f8b6c5": {90 * time.Hour, from(back)},
		"vllm-llama-9cc48d7b6": {240 * time.Hour, never}, "vllm-llama-6c5d4f8b7": {400 * time.Hour, never},
		"vllm-llama-8b7c6d5f4": {500 * time.Hour, never}, "vllm-qwen-5f6d4c9b8": {50 * time.Hour, from(restart)},
		"vllm-qwen-7d9f8b6c5": {300 * time.Hour, never}, "vllm-phi-5f6d4c9b8": {80 * time.Hour, until(now.Add(time.Hour))},
	}
	s := fleet()
	for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
		for name, rs := range sets {
			for _, page := range []string{"10.0.1.1:8080", "10.0.1.2:8080"} { // two shards with the same series
				l := func(metric string) map[string]string {
					return map[string]string{"__name__": metric, "namespace": "llm", "replicaset": name, "job": "kube-state-metrics",
						"instance": page}
				}
				s.add(l("kube_replicaset_created"), at, float64(now.Add(-rs.age).Unix()))
				s.add(l("kube_replicaset_spec_replicas"), at, rs.replicas(at))
			}
		}
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm"}, Config{})
	ages := map[string]float64{}
	for _, sm := range r.Samples {
		if sm.Signal == "rollout_age" {
			ages[sm.Entity.Pool] = sm.Value
		}
	}
	if age := ages["vllm-llama"]; age < 600 || age > 720 {
		t.Errorf("the rollback ten minutes ago has the age %g", age)
	}
	delete(ages, "vllm-llama")
	if d := cmp.Diff(map[string]float64{"vllm-qwen": 180000, "vllm-phi": 288000}, ages); d != "" {
		t.Error(d)
	}
}
