package lab

import (
	"testing"
	"time"
)

// evidence is what a diagnosis would read off the pages at one moment; rates are over five minutes.
type evidence struct {
	hot, peer          Pod     // the most loaded worker and the least loaded
	ttft, itl, prefill float64 // p95, p50, p95
	hits, promptP95    float64
	preemptions        float64
}

func observe(t *testing.T, name string, at time.Duration) (*Fleet, evidence) {
	t.Helper()
	s, err := NewScenario(name, 7)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := NewRuler(f, "")
	for _, name := range []string{"vllm:request_prefill_time_seconds", "vllm:request_prompt_tokens"} {
		r.want[name] = true
	}
	for now := at - 6*time.Minute; now <= at; now += ScrapeInterval {
		f.Advance(f.Start().Add(now))
		r.Evaluate()
	}
	one := func(v vector) float64 {
		if len(v) == 0 {
			return 0
		}
		return v[0].value
	}
	h := r.history
	e := evidence{
		ttft: one(h.quantile(.95, "vllm:time_to_first_token_seconds", 300)), itl: one(h.quantile(.5, "vllm:inter_token_latency_seconds", 300)),
		prefill: one(h.quantile(.95, "vllm:request_prefill_time_seconds", 300)), promptP95: one(h.quantile(.95, "vllm:request_prompt_tokens", 300)),
		hits:        one(h.rate("vllm:prefix_cache_hits_total", 300, 0).sum().per(h.rate("vllm:prefix_cache_queries_total", 300, 0).sum())),
		preemptions: one(h.rate("vllm:num_preemptions_total", 300, 0).sum()),
	}
	pods := f.Pods()
	e.hot, e.peer = pods[0], pods[0]
	for _, p := range pods {
		if p.Running+p.Waitlist > e.hot.Running+e.hot.Waitlist {
			e.hot = p
		}
		if p.Running+p.Waitlist < e.peer.Running+e.peer.Waitlist {
			e.peer = p
		}
	}
	return f, e
}

func TestFaultsShowTheirEvidence(t *testing.T) {
	for name, proves := range map[string]func(evidence) bool{
		KVExhaustion: func(e evidence) bool { return e.hot.KVUsage > .95 && e.preemptions > 1 && e.hot.Running < 256 },
		ConcurrencyCap: func(e evidence) bool {
			return e.hot.Running == 8 && e.peer.Running == 8 && e.hot.Waitlist > 10 && e.hot.KVUsage < .5 && e.preemptions == 0
		},
		PrefillStarvation: func(e evidence) bool {
			return e.ttft > 5 && e.itl < .05 && e.promptP95 > 10000 && e.prefill > 2 && e.preemptions < .5
		},
		RoutingSkew: func(e evidence) bool {
			return e.hot.Waitlist > 10 && e.peer.Waitlist == 0 && e.hot.Running > 2*e.peer.Running
		},
		PrefixCacheCollapse: func(e evidence) bool { return e.hits < .05 && e.ttft > 3 },
	} {
		t.Run(name, func(t *testing.T) {
			if _, e := observe(t, name, 13*time.Minute); !proves(e) {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestAHungEngineLooksAlive(t *testing.T) {
	f, _ := observe(t, EngineHang, 13*time.Minute)
	a := f.Pods()[1]
	f.Advance(f.Start().Add(14 * time.Minute))
	b := f.Pods()[1]
	if !b.Ready || b.Running == 0 || a.GeneratedTokens != b.GeneratedTokens {
		t.Errorf("%+v then %+v", a, b)
	}
	if g := f.workers[1].gpus[0]; g.util < 95 || g.power > 250 || g.tensor > 0.05 {
		t.Errorf("its GPU: util %.0f, power %.0f W, tensor %.2f", g.util, g.power, g.tensor)
	}
}

func TestMemoryIsReservedHealthyOrNot(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	for _, g := range f.nodes[0].gpus {
		if r := g.usedMiB() / gpuMemoryMiB; r < 0.92 || r > 0.95 {
			t.Errorf("FB_USED is %.3f of the memory", r)
		}
	}
}
