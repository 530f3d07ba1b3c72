package rules

import (
	"cmp"
	"fmt"
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
	Pod    string       `json:"pod,omitempty"`  // the worst one
	Note   string       `json:"note,omitempty"` // why a value has this status that would have another elsewhere
}

// PoolHealth is the health of one pool; Overall is the worst of its checks that could be measured.
type PoolHealth struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Pool      string   `json:"pool"`
	Model     string   `json:"model"`
	Workers   int      `json:"workers"` // engines: the pods of a parallel group are one
	Pods      int      `json:"pods"`
	Role      string   `json:"role,omitempty"`   // prefill or decode, where a model's two phases are apart
	Owner     string   `json:"owner,omitempty"`  // the resource that the pool was made of, as kind/name
	Routes    []string `json:"routes,omitempty"` // what sends it requests, as kind/name
	// Running is how many requests the pool's workers run together; null where nobody tells. It is
	// no check: many are as well as few.
	Running *float64               `json:"requests_running"`
	Overall HealthStatus           `json:"overall"`
	Checks  map[string]HealthCheck `json:"checks"`
	// Pathologies are the known patterns that it shows; only Health of a catalogue looks for them.
	Pathologies []SeenPathology `json:"pathologies,omitempty"`

	most, least map[string]state.Sample // by signal
	pods        map[string]readiness    // what is known of each
	several     bool                    // Model names more than one
	running     bool                    // Running is of single workers; a frontend's count of all is not added to it
}

// Scope is the pool as incidents name it; of several models none is its own.
func (p *PoolHealth) Scope() state.Scope {
	s := state.Scope{Cluster: p.Cluster, Namespace: p.Namespace, Pool: p.Pool}
	if !p.several {
		s.Model = p.Model
	}
	return s
}

// readiness is what Kubernetes and the scrape say of a pod; nil: nothing.
type readiness struct{ ready, up *bool }

// A healthRule is a check that is judged by its value alone. A threshold itself is not over it.
type healthRule struct {
	check, signal string
	warn, crit    float64 // zero: no such threshold
}

// healthRules are what users feel, and the queue, by the highest value over the pool's pods. The
// thresholds are those that operators of 70B-class pools publish: time to first token 2/5 s of the
// slowest hundredth, errors 1/5 %, queue 50/200. Time between tokens is published as 150 ms for the
// slowest hundredth too, but that is one step with a long prompt in it, which a healthy engine has:
// here it is the slowest twentieth. Of two rules for one check the worse speaks.
var healthRules = []healthRule{
	{"latency", "ttft_p99", 2, 5},
	{"latency", "itl_p95", 0.15, 0},
	{"errors", "error_rate", 0.01, 0.05},
	{"queue", "requests_waiting", 50, 200},
}

// The published thresholds of machines. None of them is trouble by itself: a full cache that nobody
// waits behind is well used, and a busy GPU is what it was bought for. What users feel decides.
const (
	kvHigh, kvFull   = 0.85, 0.95
	gpuIdle, gpuBusy = 30, 99 // percent
	idleWaiting      = 2      // requests: so many may wait for the next step of the scheduler
	preempting       = 0.01   // preemptions a second
)

// HealthSignals are what Health reads.
func HealthSignals() []string {
	return []string{"ttft_p99", "itl_p95", "error_rate", "requests_waiting", "requests_running", "kv_usage", "preemption_rate", "gpu_util", "slo_budget_left",
		"replicas_desired", "replicas_ready", "pod_ready", "up"}
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
			pools[key] = &PoolHealth{Cluster: cluster, Namespace: namespace, Pool: name, Model: model, Overall: HealthUnknown, Checks: map[string]HealthCheck{},
				most: map[string]state.Sample{}, least: map[string]state.Sample{}, pods: map[string]readiness{}}
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
		pool(e.Namespace, e.Pool, e.Model).measure(s)
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
	models := listed(p.Model, w.Model)
	p.several = p.several || p.Model != "" && models != p.Model
	p.Model, p.Role = models, listed(p.Role, w.Role)
	if p.Owner == "" && w.Owner != "" {
		p.Owner = w.OwnerKind + "/" + w.Owner
	}
	for _, r := range w.Routes {
		if !slices.Contains(p.Routes, r) {
			p.Routes = append(p.Routes, r)
		}
	}
}

// listed adds a name to names, each said once: a RayService may serve several models, or both
// phases of one.
func listed(names, name string) string {
	if names == "" || name == "" || slices.Contains(strings.Split(names, ", "), name) {
		return cmp.Or(names, name)
	}
	return names + ", " + name
}

// measure takes a sample that may be the highest or the lowest of its signal.
func (p *PoolHealth) measure(s state.Sample) {
	if high, seen := p.most[s.Signal]; !seen || s.Value > high.Value {
		p.most[s.Signal] = s
	}
	if low, seen := p.least[s.Signal]; !seen || s.Value < low.Value {
		p.least[s.Signal] = s
	}
	if s.Signal == "requests_running" {
		p.run(s)
	}
	if s.Entity.Pod == "" {
		return
	}
	switch known, yes := p.pods[s.Entity.Pod], s.Value > 0; s.Signal {
	case "pod_ready":
		p.pods[s.Entity.Pod] = readiness{&yes, known.up}
	case "up":
		p.pods[s.Entity.Pod] = readiness{known.ready, &yes}
	}
}

// run adds what a worker runs, or takes what is told of all of them together where no worker tells.
func (p *PoolHealth) run(s state.Sample) {
	own := s.Entity.Pod != "" || s.Entity.Instance != ""
	switch {
	case own && p.running:
		*p.Running += s.Value
	case own || p.Running == nil:
		p.Running, p.running = &s.Value, own
	}
}

// finish judges what was measured: first what users feel, then what the machines do about it.
func (p *PoolHealth) finish() {
	for _, r := range healthRules {
		check := r.judge(p.most)
		if old, seen := p.Checks[r.check]; !seen || healthRank[check.Status] > healthRank[old.Status] {
			p.Checks[r.check] = check
		}
	}
	felt := p.Checks["latency"].Status
	if errors := p.Checks["errors"].Status; healthRank[errors] > healthRank[Healthy] && healthRank[errors] > healthRank[felt] {
		felt = errors
	}
	p.Checks["kv_cache"], p.Checks["gpu"] = p.kvCache(felt), p.gpu(felt)
	if s, ok := p.least["slo_budget_left"]; ok { // where nobody made a promise there is no such side
		p.Checks["error_budget"] = budgetOf(s)
	}
	if c, ok := p.complete(); ok { // nor one where nobody says which workers there should be
		p.Checks["workers"] = c
	}
	for _, c := range p.Checks {
		if healthRank[c.Status] > healthRank[p.Overall] {
			p.Overall = c.Status
		}
	}
}

var healthRank = map[HealthStatus]int{HealthUnknown: 0, Healthy: 1, HealthWarning: 2, HealthCritical: 3}

func (r healthRule) judge(most map[string]state.Sample) HealthCheck {
	s, ok := most[r.signal]
	switch {
	case !ok:
		return HealthCheck{Status: HealthUnknown, Signal: r.signal}
	case r.crit > 0 && s.Value > r.crit:
		return checkOf(s, HealthCritical, "")
	case s.Value > r.warn:
		return checkOf(s, HealthWarning, "")
	}
	return checkOf(s, Healthy, "")
}

func checkOf(s state.Sample, status HealthStatus, note string) HealthCheck {
	return HealthCheck{Status: status, Signal: s.Signal, Value: &s.Value, Unit: s.Unit, Pod: s.Entity.Pod, Note: note}
}

// kvCache judges the fullest cache by what users feel.
func (p *PoolHealth) kvCache(felt HealthStatus) HealthCheck {
	s, ok := p.most["kv_usage"]
	full := s.Value > kvFull
	late := felt == HealthWarning || felt == HealthCritical
	switch {
	case !ok:
		return HealthCheck{Status: HealthUnknown, Signal: "kv_usage"}
	case full && late:
		return checkOf(s, HealthCritical, "full, and users feel it")
	case s.Value > kvHigh && late:
		return checkOf(s, HealthWarning, "nearly full while users wait or fail")
	case full && felt == HealthUnknown:
		return checkOf(s, HealthWarning, "full; what users feel was not measured")
	case full && p.most["requests_waiting"].Value > 0:
		return checkOf(s, HealthWarning, "full, and requests wait behind it")
	case full && p.most["preemption_rate"].Value > preempting:
		return checkOf(s, HealthWarning, "full, and requests are preempted")
	case full:
		return checkOf(s, Healthy, "full and well used: nobody waits")
	}
	return checkOf(s, Healthy, "")
}

// budgetOf judges what is left of the error budget that is used up most. A spent one says how the
// month was, and nothing of now.
func budgetOf(s state.Sample) HealthCheck {
	of := map[string]string{"ttft": "first tokens in time", "itl": "tokens in time", "e2e": "whole requests in time", "errors": "requests without error"}[s.Text]
	if of == "" {
		of = "its objective"
	}
	if s.Value <= 0 {
		return checkOf(s, HealthWarning, "the 30 days' error budget for "+of+" is spent")
	}
	return checkOf(s, Healthy, "for "+of+", of 30 days")
}

// complete judges whether all workers are there that should be: those that are wanted and ready,
// where Kubernetes tells, since during a rollout there are more of them; or else the pods that are
// known. One that is missing is a warning, since its peers may well carry its load.
func (p *PoolHealth) complete() (HealthCheck, bool) {
	want, ready, signal, what := p.most["replicas_desired"].Value, p.least["replicas_ready"].Value, "replicas_ready", "replicas are ready"
	if _, known := p.least["replicas_ready"]; !known || want == 0 {
		want, ready, signal, what = 0, 0, "pod_ready", "workers are ready"
		for _, pod := range p.pods {
			if pod.ready == nil {
				pod.ready, signal, what = pod.up, "up", "workers are ready or answer a scrape"
			}
			want++
			if *pod.ready {
				ready++
			}
		}
	}
	if want == 0 {
		return HealthCheck{}, false
	}
	c := HealthCheck{Status: Healthy, Signal: signal, Value: &ready, Unit: "pods"}
	if ready < want {
		c.Status, c.Note = HealthWarning, fmt.Sprintf("%g of %g %s", ready, want, what)
	}
	if ready == 0 {
		c.Status = HealthCritical
	}
	return c, true
}

// AtLeast is a pool's health that what was found there makes no better than a severity.
func (p *PoolHealth) AtLeast(said HealthStatus) {
	if healthRank[said] > healthRank[p.Overall] {
		p.Overall = said
	}
}

// gpu judges the GPUs: an idle one while requests wait, and a busy one where users are late.
func (p *PoolHealth) gpu(felt HealthStatus) HealthCheck {
	high, ok := p.most["gpu_util"]
	switch low := p.least["gpu_util"]; {
	case !ok:
		return HealthCheck{Status: HealthUnknown, Signal: "gpu_util"}
	case low.Value < gpuIdle && p.most["requests_waiting"].Value > idleWaiting:
		return checkOf(low, HealthWarning, "hardly used while requests wait")
	case high.Value > gpuBusy && felt == HealthUnknown:
		return checkOf(high, HealthWarning, "busy; what users feel was not measured")
	case high.Value > gpuBusy && felt != Healthy:
		return checkOf(high, HealthWarning, "busy, and users feel it")
	case high.Value > gpuBusy:
		return checkOf(high, Healthy, "busy and well used: nobody is late")
	}
	return checkOf(high, Healthy, "")
}
