package prometheus

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// youngFleet returns a pool that is scraped since a given time. Its traffic, cache and prompts grow
// six minutes before now.
func youngFleet(began time.Time) *store {
	s := &store{}
	var tokens, prompts, count float64
	for at := began; !at.After(now); at = at.Add(30 * time.Second) {
		kv, each := 0.3, 100.0
		if at.After(now.Add(-6 * time.Minute)) {
			kv, each = 0.99, 400
		}
		tokens, prompts, count = tokens+30*each, prompts+30*2*each, count+30*2
		for i := range 2 {
			labels := func(name string) map[string]string {
				return map[string]string{"__name__": name, "pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aaaa%d", i), "namespace": "llm",
					"instance": fmt.Sprintf("10.0.0.%d:8000", i), "job": "vllm", "model_name": "llama-70b"}
			}
			s.add(labels("vllm:num_requests_running"), at, 10)
			s.add(labels("vllm:kv_cache_usage_perc"), at, kv)
			s.add(labels("vllm:generation_tokens_total"), at, tokens)
			s.add(labels("vllm:request_prompt_tokens_sum"), at, prompts)
			s.add(labels("vllm:request_prompt_tokens_count"), at, count)
		}
	}
	return s
}

// A pool younger than an hour has a baseline if its first minutes are long enough before the onset,
// and a note says so. A younger pool has none.
func TestYoungPoolUsesFirstMinutesAsBaseline(t *testing.T) {
	onset := now.Add(-5 * time.Minute)
	for _, c := range []struct {
		age       time.Duration // at the onset
		has, tell bool
	}{{3 * time.Hour, true, false}, {61 * time.Minute, true, false}, {59 * time.Minute, true, true}, {21 * time.Minute, true, true},
		{19 * time.Minute, false, false}, {0, false, false}} {
		for name, scope := range map[string]state.Scope{"pool": {Namespace: "llm", Pool: "vllm-llama"}, "namespace": {Namespace: "llm"},
			"cluster": {}} {
			t.Run(fmt.Sprintf("%s of %s", name, c.age), func(t *testing.T) {
				client := fresh(t, &fakeAPI{t: t, store: youngFleet(onset.Add(-c.age))})
				for round := range 2 { // the second round uses the cache
					r := client.Read(t.Context(), queryAll(t, scope, onset, now.Add(time.Duration(round)*time.Second)))
					for signal, want := range map[string]float64{"kv_usage": 0.3, "generation_tokens_rate": 100,
						"prompt_length_mean": 100} {
						got := baselineOf(r, signal)
						if (got != nil) != c.has || c.has && (*got < 0.99*want || *got > 1.01*want) {
							t.Errorf("%s before, in gathering %d: %v, want %g: %t", signal, round, show(got), want, c.has)
						}
					}
					if !r.Began.IsZero() != c.tell || c.tell && !r.Began.Equal(onset.Add(-c.age)) || len(r.Notes) > 0 {
						t.Errorf("it began at %s; notes %v", r.Began, r.Notes)
					}
				}
			})
		}
	}
}

// rolledOut holds pods by name, with their values. Pods with "old" ran until 25 minutes ago, those
// with "new" since then.
type rolledOut map[string]map[string]float64

func (pods rolledOut) store() *store {
	s := &store{}
	rollout := now.Add(-25 * time.Minute)
	for pod, shows := range pods {
		from, to := now.Add(-3*time.Hour), now
		switch {
		case strings.Contains(pod, "-7d9f8b6c5-"):
			to = rollout
		case strings.Contains(pod, "-65c4d7f98-"):
			from = rollout
		}
		for at := from; !at.After(to); at = at.Add(30 * time.Second) {
			for metric, v := range shows {
				labels := map[string]string{"__name__": metric, "pod": pod, "namespace": "llm", "instance": pod, "job": "vllm",
					"model_name": "llama-70b"}
				if strings.HasPrefix(metric, "DCGM") {
					labels = map[string]string{"__name__": metric, "exported_pod": pod, "exported_namespace": "llm",
						"gpu": pod[len(pod)-1:], "Hostname": "node-1"}
				}
				if strings.HasSuffix(metric, "_total") {
					v *= at.Sub(from).Seconds()
				}
				s.add(labels, at, v)
			}
		}
	}
	return s
}

// A rollout creates new pods. If all of a pool's pods are new, their baseline is the mean of the
// replaced pods, and their share of counts. If some stayed, the new ones have no baseline.
func TestRolledOutPoolUsesPreviousPodsAsBaseline(t *testing.T) {
	worker := func(kv, tokens float64) map[string]float64 {
		return map[string]float64{"vllm:num_requests_running": 3, "vllm:kv_cache_usage_perc": kv, "vllm:generation_tokens_total": tokens}
	}
	for name, c := range map[string]struct {
		pods       rolledOut
		of         string
		kv, tokens float64 // baseline; zero: none
	}{
		"all are new": {rolledOut{"vllm-7d9f8b6c5-aaaa0": worker(.2, 300), "vllm-7d9f8b6c5-aaaa1": worker(.4, 500),
			"vllm-65c4d7f98-bbbb0": worker(.9, 400), "vllm-65c4d7f98-bbbb1": worker(.9, 400)},
			"vllm-65c4d7f98-bbbb0", .3, 400},
		"half as many": {rolledOut{"vllm-7d9f8b6c5-aaaa0": worker(.2, 300), "vllm-7d9f8b6c5-aaaa1": worker(.4, 500),
			"vllm-65c4d7f98-bbbb0": worker(.9, 800)},
			"vllm-65c4d7f98-bbbb0", .3, 800},
		"one stayed": {rolledOut{"vllm-7d9f8b6c5-aaaa0": worker(.2, 300), "vllm-5f6c7d8b9-cccc0": worker(.4, 500),
			"vllm-65c4d7f98-bbbb0": worker(.9, 800)},
			"vllm-65c4d7f98-bbbb0", 0, 0},
		"the roles of a split pool": {rolledOut{"vllm-decode-7d9f8b6c5-aaaa0": worker(.2, 300),
			"vllm-prefill-7d9f8b6c5-aaaa0": worker(.8, 10),
			"vllm-decode-65c4d7f98-bbbb0":  worker(.9, 800), "vllm-prefill-65c4d7f98-bbbb0": worker(.9, 10)},
			"vllm-prefill-65c4d7f98-bbbb0",
			.8, 10},
	} {
		for _, scope := range []state.Scope{{Namespace: "llm", Pool: "vllm"}, {Namespace: "llm", Model: "llama-70b"}} {
			t.Run(name+" "+scope.Pool, func(t *testing.T) {
				r := fresh(t, &fakeAPI{t: t, store: c.pods.store()}).Read(t.Context(), queryAll(t, scope, now.Add(-5*time.Minute), now))
				for signal, want := range map[string]float64{"kv_usage": c.kv, "generation_tokens_rate": c.tokens} {
					x := find(r, signal, c.of)
					switch {
					case x == nil:
						t.Fatalf("no %s", signal)
					case want == 0 && x.Baseline != nil, want != 0 && (x.Baseline == nil || math.Abs(*x.Baseline-want) > 0.01*want):
						t.Errorf("%s was %s, want %g", signal, show(x.Baseline), want)
					}
				}
				for pod := range c.pods {
					if x := find(r, "kv_usage", pod); x != nil && strings.Contains(pod, "-7d9f8b6c5-") {
						t.Errorf("a former pod is evidence: %+v", x)
					}
				}
				if len(r.Notes) > 0 || !r.Began.IsZero() {
					t.Errorf("notes: %v; it began at %s", r.Notes, r.Began)
				}
			})
		}
	}
}

// The last Xid of one GPU is no baseline for another.
func TestGPUGetsNoBaselineOfReplacedGPU(t *testing.T) {
	gpu := func(xid float64) map[string]float64 {
		return map[string]float64{"vllm:num_requests_running": 3, "DCGM_FI_DEV_XID_ERRORS": xid}
	}
	pods := rolledOut{"vllm-7d9f8b6c5-aaaa0": gpu(0), "vllm-7d9f8b6c5-aaaa1": gpu(79), "vllm-65c4d7f98-bbbb2": gpu(0),
		"vllm-65c4d7f98-bbbb3": gpu(79)}
	r := fresh(t, &fakeAPI{t: t, store: pods.store()}).Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm"},
		now.Add(-5*time.Minute), now))
	seen := 0
	for _, s := range r.Samples {
		if s.Signal == "gpu_xid" {
			if seen++; s.Baseline != nil {
				t.Errorf("%s has a baseline of %s, which is another's", s.Entity.Pod, show(s.Baseline))
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d GPUs", seen)
	}
}

// First one of two workers has no requests, then the other. Each has its own baseline, or none.
func TestRemainingWorkerKeepsItsOwnBaseline(t *testing.T) {
	s := &store{}
	for at := now.Add(-3 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
		for i, metric := range []string{"vllm:generation_tokens_total", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"} {
			for pod := range 2 {
				if i == 2 && (pod == 0) == at.After(now.Add(-40*time.Minute)) {
					continue
				}
				s.add(map[string]string{"__name__": metric, "pod": fmt.Sprintf("vllm-5f6c7d8b9-cccc%d", pod), "namespace": "llm",
					"model_name": "llama-70b"}, at, 0.5)
			}
		}
	}
	r := fresh(t, &fakeAPI{t: t, store: s}).Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm"},
		now.Add(-5*time.Minute), now))
	if x := find(r, "kv_usage", "vllm-5f6c7d8b9-cccc1"); x == nil || x.Baseline != nil {
		t.Errorf("%+v", x)
	}
}

// A router that also counts the engines' requests is older than the engines, but is no engine.
func TestRouterCountIsNotAnEngineAge(t *testing.T) {
	onset := now.Add(-5 * time.Minute)
	s := youngFleet(onset.Add(-30 * time.Minute))
	for at := now.Add(-3 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
		s.add(map[string]string{"__name__": "vllm:num_requests_running", "pod": "router-0", "namespace": "llm",
			"server": "http://10.0.0.1:8000"}, at, 1)
	}
	r := fresh(t, &fakeAPI{t: t, store: s}).Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm"}, onset, now))
	if got := baselineOf(r, "kv_usage"); got == nil || *got != 0.3 {
		t.Errorf("kv_usage was %s", show(got))
	}
}

// If the age query fails, a note reports it, because it explains a missing baseline.
func TestUnansweredAgeQueryIsReported(t *testing.T) {
	f := &fakeAPI{t: t, store: youngFleet(now.Add(-40 * time.Minute)), refuse: "timestamp("}
	r := fresh(t, f).Read(t.Context(), queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-5*time.Minute), now))
	if len(r.Notes) != 1 || r.Notes[0].Signal != "baseline" || !strings.HasPrefix(r.Notes[0].Reason,
		"reading the oldest sample: Prometheus: ") {
		t.Errorf("%+v", r.Notes)
	}
}

func baselineOf(r enrich.Reading, signal string) *float64 {
	for _, s := range r.Samples {
		if s.Signal == signal && s.Baseline != nil {
			return s.Baseline
		}
	}
	return nil
}

func show(v *float64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%g", *v)
}
