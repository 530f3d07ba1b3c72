package rules

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
)

// HealthStatus is how a pool, or one side of it, is.
type HealthStatus string

// The statuses; HealthUnknown is what could not be measured.
const (
	Healthy        HealthStatus = "healthy"
	HealthWarning  HealthStatus = "warning"
	HealthCritical HealthStatus = "critical"
	HealthUnknown  HealthStatus = "unknown"
)

// A HealthCheck is one side of a pool's health.
type HealthCheck struct {
	Status HealthStatus `json:"status"`
	Signal string       `json:"signal"`
	Value  *float64     `json:"value"` // null where it was not measured
	Unit   string       `json:"unit"`
	Pod    string       `json:"pod,omitempty"` // the worst one
}

// PoolHealth is the health of one pool; Overall is the worst of its checks that could be measured.
type PoolHealth struct {
	Cluster   string                 `json:"cluster"`
	Namespace string                 `json:"namespace"`
	Pool      string                 `json:"pool"`
	Model     string                 `json:"model"`
	Workers   int                    `json:"workers"` // engines: the pods of a parallel group are one
	Pods      int                    `json:"pods"`
	Role      string                 `json:"role,omitempty"`   // prefill or decode, where a model's two phases are apart
	Owner     string                 `json:"owner,omitempty"`  // the resource that the pool was made of, as kind/name
	Routes    []string               `json:"routes,omitempty"` // what sends it requests, as kind/name
	Overall   HealthStatus           `json:"overall"`
	Checks    map[string]HealthCheck `json:"checks"`
}

// healthRules are the thresholds of a fleet's health report, worst value over the pool's pods. They are those that operators of
// 70B-class pools publish: KV cache 85/95 %, time to first token 2/5 s, errors 1/5 %, queue 50/200, a GPU busy over 99 %.
var healthRules = []struct {
	check, signal string
	warn, crit    float64 // zero: no such threshold
}{
	{"gpu", "gpu_util", 99, 0},
	{"kv_cache", "kv_usage", 0.85, 0.95},
	{"latency", "ttft_p95", 2, 5},
	{"errors", "error_rate", 0.01, 0.05},
	{"queue", "requests_waiting", 50, 200},
}

// Health judges every pool that the evidence knows of, in a stable order.
func Health(cluster string, ev state.Evidence) []PoolHealth {
	pools := map[string]*PoolHealth{}
	pool := func(namespace, name, model string) *PoolHealth {
		key := namespace + "/" + name
		if name == "" {
			key += strings.ToLower(model)
		}
		if pools[key] == nil {
			pools[key] = &PoolHealth{Cluster: cluster, Namespace: namespace, Pool: name, Model: model, Overall: HealthUnknown, Checks: map[string]HealthCheck{}}
		}
		return pools[key]
	}
	byPod, engines := map[place]state.Worker{}, map[place]bool{}
	for _, w := range ev.Workers {
		p := pool(w.Namespace, w.Pool, w.Model)
		p.take(w, engines)
		if w.Pod != "" {
			byPod[place{w.Namespace, w.Pod}] = w
		}
	}
	for _, s := range ev.Samples {
		e := s.Entity
		if w, ok := byPod[place{e.Namespace, e.Pod}]; ok {
			e.Pool, e.Model = w.Pool, cmp.Or(w.Model, e.Model)
		}
		if e.Pool == "" && e.Model == "" {
			continue
		}
		pool(e.Namespace, e.Pool, e.Model).judge(s)
	}
	out := []PoolHealth{}
	for _, p := range pools {
		p.finish()
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y PoolHealth) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Pool, y.Pool), strings.Compare(x.Model, y.Model))
	})
	return out
}

// take counts a pod of the pool.
func (p *PoolHealth) take(w state.Worker, engines map[place]bool) {
	p.Pods++
	if key := (place{w.Namespace + "/" + w.Pool, w.EngineKey()}); !engines[key] || w.Pod == "" {
		engines[key] = true
		p.Workers++
	}
	p.Model, p.Role = cmp.Or(p.Model, w.Model), cmp.Or(p.Role, w.Role)
	if p.Owner == "" && w.Owner != "" {
		p.Owner = w.OwnerKind + "/" + w.Owner
	}
	for _, r := range w.Routes {
		if !contains(p.Routes, r) {
			p.Routes = append(p.Routes, r)
		}
	}
}

// judge takes a sample into the check that reads it, if it is the worst so far.
func (p *PoolHealth) judge(s state.Sample) {
	for _, r := range healthRules {
		if r.signal != s.Signal {
			continue
		}
		old, seen := p.Checks[r.check]
		if seen && old.Value != nil && *old.Value >= s.Value {
			continue
		}
		status := Healthy
		if r.warn > 0 && s.Value > r.warn {
			status = HealthWarning
		}
		if r.crit > 0 && s.Value > r.crit {
			status = HealthCritical
		}
		p.Checks[r.check] = HealthCheck{Status: status, Signal: s.Signal, Value: &s.Value, Unit: s.Unit, Pod: s.Entity.Pod}
	}
}

func (p *PoolHealth) finish() {
	rank := map[HealthStatus]int{HealthUnknown: 0, Healthy: 1, HealthWarning: 2, HealthCritical: 3}
	for _, r := range healthRules {
		c, ok := p.Checks[r.check]
		if !ok {
			p.Checks[r.check] = HealthCheck{Status: HealthUnknown, Signal: r.signal}
			continue
		}
		if rank[c.Status] > rank[p.Overall] {
			p.Overall = c.Status
		}
	}
}
