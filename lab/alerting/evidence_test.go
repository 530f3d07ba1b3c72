package alerting

import (
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
)

// evidence holds values that a diagnosis reads off the pages; rates are over five minutes.
type evidence struct {
	hot, peer          lab.Pod // the most loaded worker and the least loaded
	ttft, itl, prefill float64 // p95, p50, p95
	hits, promptP95    float64
	preemptions        float64
}

func observe(t *testing.T, name string, at time.Duration) (*lab.Fleet, evidence) {
	t.Helper()
	s, err := drill.New(name, 7)
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
		ttft:        one(h.quantile(.95, "vllm:time_to_first_token_seconds", 300)),
		itl:         one(h.quantile(.5, "vllm:inter_token_latency_seconds", 300)),
		prefill:     one(h.quantile(.95, "vllm:request_prefill_time_seconds", 300)),
		promptP95:   one(h.quantile(.95, "vllm:request_prompt_tokens", 300)),
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
		lab.KVExhaustion: func(e evidence) bool { return e.hot.KVUsage > .95 && e.preemptions > 1 && e.hot.Running < 256 },
		lab.ConcurrencyCap: func(e evidence) bool {
			return e.hot.Running == 8 && e.peer.Running == 8 && e.hot.Waitlist > 10 && e.hot.KVUsage < .5 && e.preemptions == 0
		},
		lab.PrefillStarvation: func(e evidence) bool {
			return e.ttft > 2.5 && e.itl < .1 && e.promptP95 < 4000 && e.prefill > 1 && e.preemptions < .5
		},
		lab.RoutingSkew: func(e evidence) bool {
			return e.hot.Waitlist > 10 && e.peer.Waitlist == 0 && e.hot.Running > 2*e.peer.Running
		},
		lab.PrefixCacheCollapse: func(e evidence) bool { return e.hits < .05 && e.ttft > 3 },
	} {
		t.Run(name, func(t *testing.T) {
			if _, e := observe(t, name, 13*time.Minute); !proves(e) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Each fault of demand shows the evidence that distinguishes it from similar faults, and not
// theirs.
func TestDemandShowsItsEvidence(t *testing.T) {
	for name, proves := range map[string]func(e evidence, whole, aborted float64) bool{
		lab.TrafficSurge: func(e evidence, whole, _ float64) bool { // more is answered than ever, and still not enough
			return e.peer.KVUsage > .9 && float64(e.hot.Running) < 1.5*float64(e.peer.Running) && e.preemptions > 1 &&
				whole > 1.5*2.3*120 && e.promptP95 < 4000
		},
		lab.RetryStorm: func(e evidence, whole, aborted float64) bool {
			return aborted > 4*whole && whole < 0.5*3.4*120 && e.hot.KVUsage < .9 && e.promptP95 < 4000
		},
		lab.LongContextBurst: func(e evidence, _, _ float64) bool {
			return e.promptP95 > 10000 && e.prefill > 2 && e.ttft > 5 && e.itl > .021 && e.hot.KVUsage > .6
		},
		lab.DecodeSaturation: func(e evidence, whole, aborted float64) bool {
			return e.itl > .03 && e.ttft < 1 && e.hot.Waitlist == 0 && e.hot.KVUsage < .7 && e.preemptions == 0 && aborted < 0.05*whole
		},
		lab.ClientCancellations: func(e evidence, whole, aborted float64) bool {
			return aborted > 3*whole && e.ttft < 1 && e.itl < .02 && e.hot.Waitlist == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, e := observe(t, name, 13*time.Minute)
			whole, aborted := outcomes(f)
			f.Advance(f.Start().Add(15 * time.Minute))
			wholeLater, abortedLater := outcomes(f)
			if w, a := wholeLater-whole, abortedLater-aborted; !proves(e, w, a) {
				t.Errorf("in two minutes %.0f requests were answered whole and %.0f aborted; %+v", w, a, e)
			}
		})
	}
}

// outcomes counts the requests that the pool has answered whole, and those that were aborted.
func outcomes(f *lab.Fleet) (whole, aborted float64) {
	_, _, pages := f.Scrape()
	for _, p := range pages {
		for _, family := range p.Families {
			if family.GetName() != "vllm:request_success_total" {
				continue
			}
			for _, m := range family.Metric {
				switch labelMap(m.Label)["finished_reason"] {
				case "stop", "length":
					whole += m.Counter.GetValue()
				case "abort":
					aborted += m.Counter.GetValue()
				}
			}
		}
	}
	return whole, aborted
}
