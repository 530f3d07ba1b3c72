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

// A Deployment has five ReplicaSets and goes back to one that is days old. Nothing but the replicas
// of the ReplicaSets shows when, also hours later, and if its strategy ends the old pods first. A
// Deployment that is scaled from zero begins no rollout, whether it was rolled out in these hours
// or not. Another one has an old ReplicaSet that never changed.
func TestRollbackBeginsWithReplicasOfOldReplicaSet(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	type set struct {
		age      time.Duration
		replicas func(at time.Time) float64
	}
	never := func(time.Time) float64 { return 0 }
	between := func(begin, end time.Time) func(time.Time) float64 {
		return func(at time.Time) float64 {
			if at.Before(begin) || !at.Before(end) {
				return 0
			}
			return 3
		}
	}
	until := func(end time.Time) func(time.Time) float64 { return between(time.Time{}, end) }
	from := func(begin time.Time) func(time.Time) float64 { return between(begin, now.Add(time.Hour)) }
	rolled, slept, woke := ago(5*time.Hour), ago(4*time.Hour), ago(20*time.Minute)
	sets := map[string]set{
		"vllm-llama-5f6d4c9b8": {2 * time.Hour, until(ago(10 * time.Minute))},
		"vllm-llama-7d9f8b6c5": {90 * time.Hour, from(ago(10 * time.Minute))},
		"vllm-llama-9cc48d7b6": {240 * time.Hour, never}, "vllm-llama-6c5d4f8b7": {400 * time.Hour, never},
		"vllm-llama-8b7c6d5f4": {500 * time.Hour, never},
		"vllm-gemma-5f6d4c9b8": {7 * time.Hour, until(ago(4 * time.Hour))}, "vllm-gemma-7d9f8b6c5": {90 * time.Hour, from(ago(4 * time.Hour))},
		"vllm-mixtral-5f6d4c9b8": {7 * time.Hour, until(ago(125 * time.Minute))},
		"vllm-mixtral-7d9f8b6c5": {90 * time.Hour, from(ago(2 * time.Hour))},
		"vllm-qwen-5f6d4c9b8":    {50 * time.Hour, from(woke)}, "vllm-qwen-7d9f8b6c5": {300 * time.Hour, never},
		"vllm-yi-5f6d4c9b8":  {50 * time.Hour, until(rolled)},
		"vllm-yi-7d9f8b6c5":  {60 * time.Hour, func(at time.Time) float64 { return between(rolled, slept)(at) + from(woke)(at) }},
		"vllm-phi-5f6d4c9b8": {80 * time.Hour, until(now.Add(time.Hour))},
	}
	s := fleet()
	for at := ago(7 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
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
	for pool, want := range map[string]float64{"vllm-llama": 600, "vllm-gemma": 4 * 3600, "vllm-mixtral": 2 * 3600} {
		if age := ages[pool]; age < want || age > want+120 {
			t.Errorf("the rollback of %s %g s ago has the age %g", pool, want, age)
		}
		delete(ages, pool)
	}
	if d := cmp.Diff(map[string]float64{"vllm-qwen": 180000, "vllm-yi": 180000, "vllm-phi": 288000}, ages); d != "" {
		t.Error(d)
	}
}

// During a rollout the images tell old workers from new ones. Sidecars have images too. The status
// of a container may name its image by a digest; older exporters have nothing else.
func TestImagesOfWorkersAreRead(t *testing.T) {
	s := fleet()
	images := map[string]string{"vllm-llama-7d9f8b6c5-aaaa0": "vllm/vllm-openai:v0.10.2", "vllm-llama-7d9f8b6c5-aaaa1": "vllm/vllm-openai:v0.11.0"}
	add := func(pod, container, image, spec string) {
		s.add(map[string]string{"__name__": "kube_pod_container_info", "namespace": "llm", "pod": pod, "container": container,
			"image": image, "image_spec": spec, "job": "kube-state-metrics"}, now, 1)
	}
	add("vllm-llama-7d9f8b6c5-aaaa0", "vllm", "vllm/vllm-openai:v0.10.2", "")
	add("vllm-llama-7d9f8b6c5-aaaa1", "vllm", "sha256:4c1e997385b8fb4ad4d1d3c7e5af7ff3f882e94d07cf5b78de9e889bc60830e6",
		"vllm/vllm-openai:v0.11.0")
	for pod := range images {
		add(pod, "istio-proxy", "istio/proxyv2:1.27.1", "istio/proxyv2:1.27.1")
	}
	got := map[string]string{}
	for _, sm := range read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{}).Samples {
		if sm.Signal == "pod_image" {
			got[sm.Entity.Pod] += sm.Text
		}
	}
	if d := cmp.Diff(images, got); d != "" {
		t.Error(d)
	}
}
