package enrich

import (
	"testing"

	"paramedic/state"
)

// A proxy counts requests to a Service or a route. Both lead to the pool behind them. A name that
// leads nowhere is another workload.
func TestProxyCountsForThePoolBehind(t *testing.T) {
	worker := state.Worker{Namespace: "llm", Pod: pod0, Pool: "vllm-llama", Model: "llama", Routes: []string{"Service/front"}}
	denied := func(pool string) state.Sample {
		s := sampleOf("gateway_denied_ratio", state.Entity{Namespace: "llm", Pool: pool}, 0.3)
		if pool == "beside" {
			s.Value = 0
		}
		return s
	}
	scraped := []Scraped{{state.Entity{Namespace: "llm", Pod: pod0}, state.ScrapeJob{Job: "x", Service: "llama-svc"}}}
	engine := sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama"}, 0.2)
	for name, c := range map[string]struct {
		workers []state.Worker
		names   []string
		want    int
	}{
		"its own name":                     {nil, []string{"vllm-llama"}, 1},
		"its own name, after another's":    {nil, []string{"beside", "vllm-llama"}, 1},
		"a route":                          {[]state.Worker{worker}, []string{"front"}, 1},
		"a Service that is scraped":        {nil, []string{"llama-svc", "shop"}, 1},
		"another Service, routes known":    {[]state.Worker{worker}, []string{"shop"}, 0},
		"the only name, routes unknown":    {nil, []string{"chat"}, 1},
		"one of two names, routes unknown": {nil, []string{"chat", "shop"}, 0},
	} {
		prom := Reading{Samples: []state.Sample{engine}, Scraped: scraped}
		for _, pool := range c.names {
			prom.Samples = append(prom.Samples, denied(pool))
		}
		r := request("kv_usage", "gateway_denied_ratio")
		r.Scope = state.Scope{Namespace: "llm", Pool: "vllm-llama"}
		ev := gatherer(t, Cluster{Prometheus: &fixed{reading: prom}, Kubernetes: &fixed{reading: Reading{Workers: c.workers}}}).
			Gather(t.Context(), r)
		n := 0
		for _, s := range ev.Samples {
			if s.Signal == "gateway_denied_ratio" && s.Entity.Pool == "vllm-llama" && s.Value == 0.3 {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d samples of the pool, want %d", name, n, c.want)
		}
	}
}

// Workers that are known by their addresses belong to the Service that their job is named after, if
// a proxy sends requests to a Service of this name.
func TestJobNamesTheUpstreamsPool(t *testing.T) {
	address := func(host, model string) state.Entity { return state.Entity{Instance: host + ":8000", Model: model} }
	for name, c := range map[string]struct {
		workers  []state.Entity // of the job llama-svc
		upstream []state.Entity
		want     string
	}{
		"one model":           {[]state.Entity{address("a", "llama"), address("b", "llama")}, []state.Entity{{Namespace: "llm", Pool: "llama-svc"}}, "llm/llama-svc"},
		"two models":          {[]state.Entity{address("a", "llama"), address("b", "qwen")}, []state.Entity{{Namespace: "llm", Pool: "llama-svc"}}, "/"},
		"another Service":     {[]state.Entity{address("a", "llama")}, []state.Entity{{Namespace: "llm", Pool: "shop"}}, "/"},
		"in two namespaces":   {[]state.Entity{address("a", "llama")}, []state.Entity{{Namespace: "llm", Pool: "llama-svc"}, {Namespace: "test", Pool: "llama-svc"}}, "/"},
		"no known namespaces": {[]state.Entity{address("a", "llama")}, []state.Entity{{Pool: "llama-svc"}}, "/"},
	} {
		var prom Reading
		for _, e := range c.workers {
			prom.Samples = append(prom.Samples, sampleOf("kv_usage", e, 0.2))
			prom.Scraped = append(prom.Scraped, Scraped{e, state.ScrapeJob{Job: "llama-svc"}})
		}
		for _, e := range c.upstream {
			prom.Samples = append(prom.Samples, sampleOf("gateway_denied_ratio", e, 0.3))
		}
		r := request("kv_usage", "gateway_denied_ratio")
		r.Scope = state.Scope{Model: "llama"}
		for _, w := range gatherer(t, Cluster{Prometheus: &fixed{reading: prom}}).Gather(t.Context(), r).Workers {
			if got := w.Namespace + "/" + w.Pool; got != c.want {
				t.Errorf("%s: the pool of %s is %q, want %q", name, w.Instance, got, c.want)
			}
		}
	}
}

// The count of a gateway replaces no worker's, also if a worker is known by its address only.
func TestGatewayCountIsNoWorkersCount(t *testing.T) {
	for name, worker := range map[string]state.Entity{
		"pods":      {Namespace: "llm", Pod: pod0, Model: "llama"},
		"addresses": {Namespace: "llm", Pool: "vllm-llama", Instance: "10.0.0.7:8000", Model: "llama"},
		"no pool":   {Instance: "10.0.0.7:8000", Model: "llama"},
	} {
		prom := &fixed{reading: Reading{Samples: []state.Sample{
			sampleOf("arrival_rate", worker, 2),
			sampleOf("arrival_rate", state.Entity{Namespace: "llm", Pool: worker.Pool, Model: "llama"}, 40),
		}}}
		r := request("arrival_rate")
		r.Scope = state.Scope{Model: "llama"}
		var got []float64
		for _, s := range gatherer(t, Cluster{Prometheus: prom}).Gather(t.Context(), r).Samples {
			got = append(got, s.Value)
		}
		if len(got) != 1 || got[0] != 2 {
			t.Errorf("%s: arrivals %v, want the worker's 2 only", name, got)
		}
	}
}
