package prometheus

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// since is a pool that is scraped since a moment, and whose traffic, cache and prompts grow six minutes before now.
func since(began time.Time) *store {
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

// What is compared with the past has one where the pool is younger than an hour, as soon as its first minutes are so much older than the onset
// that they were before the trouble; and says so. Of a still younger one nothing stands for the past.
func TestAPoolYoungerThanAnHourIsComparedWithItsFirstMinutes(t *testing.T) {
	onset := now.Add(-5 * time.Minute)
	for _, c := range []struct {
		age       time.Duration // at the onset
		has, tell bool
	}{{3 * time.Hour, true, false}, {61 * time.Minute, true, false}, {59 * time.Minute, true, true}, {20 * time.Minute, true, true}, {8 * time.Minute, true, true}, {6 * time.Minute, false, false}, {0, false, false}} {
		for name, scope := range map[string]state.Scope{"pool": {Namespace: "llm", Pool: "vllm-llama"}, "namespace": {Namespace: "llm"}, "cluster": {}} {
			t.Run(fmt.Sprintf("%s of %s", name, c.age), func(t *testing.T) {
				client := fresh(t, &fakeAPI{t: t, store: since(onset.Add(-c.age))})
				for round := range 2 { // the second of what is remembered
					r := client.Read(t.Context(), asks(t, scope, onset, now.Add(time.Duration(round)*time.Second)))
					for signal, want := range map[string]float64{"kv_usage": 0.3, "generation_tokens_rate": 100, "prompt_length_mean": 100} {
						got := baselineOf(r, signal)
						if (got != nil) != c.has || c.has && (*got < 0.99*want || *got > 1.01*want) {
							t.Errorf("%s before, in gathering %d: %v, want %g: %t", signal, round, show(got), want, c.has)
						}
					}
					if told := slices.ContainsFunc(r.Notes, func(m state.Missing) bool { return m.Signal == "baseline" }); told != c.tell {
						t.Errorf("notes: %v", r.Notes)
					}
				}
			})
		}
	}
}

// A rollout makes new pods. Where all of a pool's are new, they are compared with those whose places they took, and where some stayed with none.
func TestAPoolAfterARolloutIsComparedWithThePodsBefore(t *testing.T) {
	onset, rollout := now.Add(-5*time.Minute), now.Add(-25*time.Minute)
	for _, stayed := range []bool{false, true} {
		s := &store{}
		worker := func(pod string, from, to time.Time, kv float64) {
			for at := from; !at.After(to); at = at.Add(30 * time.Second) {
				for metric, v := range map[string]float64{"vllm:num_requests_running": 3, "vllm:kv_cache_usage_perc": kv} {
					s.add(map[string]string{"__name__": metric, "pod": "vllm-llama-" + pod, "namespace": "llm", "instance": pod, "job": "vllm", "model_name": "llama-70b"}, at, v)
				}
			}
		}
		worker("7d9f8b6c5-aaaa0", now.Add(-3*time.Hour), rollout, 0.2)
		worker("7d9f8b6c5-aaaa1", now.Add(-3*time.Hour), rollout, 0.4)
		worker("65c4d7f98-bbbb0", rollout, now, 0.9)
		worker("65c4d7f98-bbbb1", rollout, now, 0.9)
		if stayed {
			worker("7d9f8b6c5-aaaa2", now.Add(-3*time.Hour), now, 0.5)
		}
		r := fresh(t, &fakeAPI{t: t, store: s}).Read(t.Context(), asks(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, onset, now))
		for _, pod := range []string{"bbbb0", "bbbb1"} {
			x := find(r, "kv_usage", "vllm-llama-65c4d7f98-"+pod)
			switch {
			case x == nil:
				t.Fatalf("stayed %t: no kv_usage of %s", stayed, pod)
			case stayed && x.Baseline != nil:
				t.Errorf("%s has the past %s, though a worker stayed that has one", pod, show(x.Baseline))
			case !stayed && (x.Baseline == nil || math.Abs(*x.Baseline-0.3) > 1e-9):
				t.Errorf("%s has the past %s, not 0.3", pod, show(x.Baseline))
			}
		}
		if x := find(r, "kv_usage", "vllm-llama-7d9f8b6c5-aaaa0"); x != nil {
			t.Errorf("a pod that is gone is evidence: %+v", x)
		}
		if len(r.Notes) > 0 {
			t.Errorf("notes: %v", r.Notes)
		}
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
