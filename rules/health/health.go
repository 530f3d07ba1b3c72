package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"paramedic/rules/topology"
	"paramedic/state"
)

// A Status is the state of a pool or of one of its checks.
type Status string

// The statuses; HealthUnknown means not measured.
const (
	Healthy        Status = "healthy"
	HealthWarning  Status = "warning"
	HealthCritical Status = "critical"
	Unknown        Status = "unknown"
)

// A Check is the result of one check of a pool.
type Check struct {
	Status Status   `json:"status"`
	Signal string   `json:"signal"`
	Value  *float64 `json:"value"` // null if not measured
	Unit   string   `json:"unit"`
	Pod    string   `json:"pod,omitempty"` // the worst one
	// Note is the reason why the value has this status although another context would give another
	// one.
	Note string `json:"note,omitempty"`
}

// Pool is the health of one pool. Overall is the worst of its measured checks.
type Pool struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Pool      string   `json:"pool"`
	Model     string   `json:"model"`
	Workers   int      `json:"workers"` // engines: the pods of a parallel group count as one
	Pods      int      `json:"pods"`
	Role      string   `json:"role,omitempty"`   // prefill or decode, if a model has separate pools for both
	Owner     string   `json:"owner,omitempty"`  // the resource that created the pool, as kind/name
	Routes    []string `json:"routes,omitempty"` // the resources that send it requests, as kind/name
	// Running is the number of requests that run on all workers; null if not exported. It is not a
	// check: neither many nor few are a problem.
	Running *float64         `json:"requests_running"`
	Overall Status           `json:"overall"`
	Checks  map[string]Check `json:"checks"`
	// Pathologies are the known patterns that the pool shows. Only Catalog.Health looks for them.
	Pathologies []SeenPathology `json:"pathologies,omitempty"`

	most, least map[string]state.Sample // by signal
	pods        map[string]readiness    // by pod
	several     bool                    // Model names more than one
	running     bool                    // Running is a sum over workers; a frontend's total is not added to it
}

// Scope returns the pool's scope as incidents use it. A pool of several models has no model in it.
func (p *Pool) Scope() state.Scope {
	s := state.Scope{Cluster: p.Cluster, Namespace: p.Namespace, Pool: p.Pool}
	if !p.several {
		s.Model = p.Model
	}
	return s
}

// readiness holds the state of a pod from Kubernetes and from the scrape; nil is unknown.
type readiness struct{ ready, up *bool }

// A healthRule is a check that depends only on a value. A value equal to a threshold is healthy.
type healthRule struct {
	check, signal string
	warn, crit    float64 // zero: no such threshold
}

// healthRules check latency, errors and the queue, using the highest value of the pool's pods. The
// thresholds holds the values that operators of 70B-class pools publish: p99 of the time to first
// token 2/5 s, errors 1/5 %, queue 50/200. The published threshold of 150 ms between tokens is also
// a p99. A healthy engine exceeds it in each step with a long prompt, so the p95 is used here. If
// two rules have the same check, the worse result counts.
var healthRules = []healthRule{
	{"latency", "ttft_p99", 2, 5},
	{"latency", "itl_p95", 0.15, 0},
	{"errors", "error_rate", 0.01, 0.05},
	{"queue", "requests_waiting", 50, 200},
}

// The published thresholds of machines. None is a problem by itself: a full cache with an empty
// queue is well used, and a GPU is meant to be busy. Latency and errors decide.
const (
	kvHigh, kvFull   = 0.85, 0.95
	gpuIdle, gpuBusy = 30, 99 // percent
	idleWaiting      = 2      // this many requests may wait for the next step of the scheduler
	preempting       = 0.01   // preemptions per second
)

// Signals returns the signals that Health reads.
func Signals() []string {
	return []string{"ttft_p99", "itl_p95", "error_rate", "requests_waiting", "requests_running", "kv_usage",
		"preemption_rate", "gpu_util", "slo_budget_left", "replicas_desired", "replicas_ready", "pod_ready", "up"}
}

// Of checks every pool in the evidence. The result is sorted by namespace, pool and model.
func Of(cluster string, ev state.Evidence) []Pool {
	pools := map[string]*Pool{}
	pool := func(namespace, name, model string) *Pool {
		key := namespace + "/" + name
		if name == "" {
			key += strings.ToLower(model)
		}
		if pools[key] == nil {
			pools[key] = &Pool{Cluster: cluster, Namespace: namespace, Pool: name, Model: model,
				Overall: Unknown, Checks: map[string]Check{},
				most: map[string]state.Sample{}, least: map[string]state.Sample{}, pods: map[string]readiness{}}
		}
		return pools[key]
	}
	byPod, engines := map[topology.Place]state.Worker{}, map[topology.Place]bool{}
	for _, w := range ev.Workers {
		p := pool(w.Namespace, w.Pool, w.Model)
		p.take(w, engines)
		if w.Pod != "" {
			byPod[topology.PlaceOf(w.Namespace, w.Pod)] = w
		}
	}
	for _, s := range ev.Samples {
		e := s.Entity
		if w, ok := byPod[topology.PlaceOf(e.Namespace, e.Pod)]; ok {
			e.Pool, e.Model = w.Pool, cmp.Or(w.Model, e.Model)
		}
		if e.Pool == "" && e.Model == "" {
			continue
		}
		pool(e.Namespace, e.Pool, e.Model).measure(s)
	}
	out := []Pool{}
	for _, p := range pools {
		p.finish()
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y Pool) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Pool, y.Pool),
			strings.Compare(x.Model, y.Model))
	})
	return out
}

// take counts a pod of the pool.
func (p *Pool) take(w state.Worker, engines map[topology.Place]bool) {
	p.Pods++
	if key := topology.PlaceOf(w.Namespace+"/"+w.Pool, w.EngineKey()); !engines[key] || w.Pod == "" {
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

// listed adds a name to a list of distinct names: a RayService may serve several models, or both
// phases of one.
func listed(names, name string) string {
	if names == "" || name == "" || slices.Contains(strings.Split(names, ", "), name) {
		return cmp.Or(names, name)
	}
	return names + ", " + name
}

// measure updates the highest and lowest sample of a signal, the running requests and the pods'
// readiness.
func (p *Pool) measure(s state.Sample) {
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

// run adds a worker's running requests. A total of all workers is used only if no worker reports
// its own.
func (p *Pool) run(s state.Sample) {
	own := s.Entity.Pod != "" || s.Entity.Instance != ""
	switch {
	case own && p.running:
		*p.Running += s.Value
	case own || p.Running == nil:
		p.Running, p.running = &s.Value, own
	}
}

// finish computes the checks: first latency and errors, then those of the machines, which depend on
// them.
func (p *Pool) finish() {
	for _, r := range healthRules {
		check := r.judge(p.most)
		if old, seen := p.Checks[r.check]; !seen || healthRank[check.Status] > healthRank[old.Status] {
			p.Checks[r.check] = check
		}
	}
	felt := p.Checks["latency"].Status
	if errors := p.Checks["errors"].Status; healthRank[errors] > healthRank[Healthy] &&
		healthRank[errors] > healthRank[felt] {
		felt = errors
	}
	p.Checks["kv_cache"], p.Checks["gpu"] = p.kvCache(felt), p.gpu(felt)
	if s, ok := p.least["slo_budget_left"]; ok { // pools without an objective have no such check
		p.Checks["error_budget"] = budgetOf(s)
	}
	if c, ok := p.complete(); ok { // nor have pools whose wanted number of workers is unknown
		p.Checks["workers"] = c
	}
	for _, c := range p.Checks {
		if healthRank[c.Status] > healthRank[p.Overall] {
			p.Overall = c.Status
		}
	}
}

var healthRank = map[Status]int{Unknown: 0, Healthy: 1, HealthWarning: 2, HealthCritical: 3}

func (r healthRule) judge(most map[string]state.Sample) Check {
	s, ok := most[r.signal]
	switch {
	case !ok:
		return Check{Status: Unknown, Signal: r.signal}
	case r.crit > 0 && s.Value > r.crit:
		return checkOf(s, HealthCritical, "")
	case s.Value > r.warn:
		return checkOf(s, HealthWarning, "")
	}
	return checkOf(s, Healthy, "")
}

// Rate returns the status of a signal's value by itself. It is Unknown if no check has a threshold
// for the signal. Preemptions delay requests from the rate at which they matter for a full cache.
func Rate(signal string, value float64) Status {
	if signal == "preemption_rate" {
		return healthRule{signal: signal, warn: preempting}.judge(map[string]state.Sample{signal: {Value: value}}).Status
	}
	for _, r := range healthRules {
		if r.signal == signal {
			return r.judge(map[string]state.Sample{signal: {Value: value}}).Status
		}
	}
	return Unknown
}

func checkOf(s state.Sample, status Status, note string) Check {
	return Check{Status: status, Signal: s.Signal, Value: &s.Value, Unit: s.Unit, Pod: s.Entity.Pod, Note: note}
}

// knows reports whether the signal was measured.
func (p *Pool) knows(signal string) bool {
	_, ok := p.most[signal]
	return ok
}

// kvCache rates the fullest cache by the latency and errors of the pool.
func (p *Pool) kvCache(felt Status) Check {
	s, ok := p.most["kv_usage"]
	full := s.Value > kvFull
	late := felt == HealthWarning || felt == HealthCritical
	switch {
	case !ok:
		return Check{Status: Unknown, Signal: "kv_usage"}
	case full && late:
		return checkOf(s, HealthCritical, "full, and users feel it")
	case s.Value > kvHigh && late:
		return checkOf(s, HealthWarning, "nearly full while users wait or fail")
	case full && felt == Unknown:
		return checkOf(s, HealthWarning, "full; latency and errors were not measured")
	case full && p.most["requests_waiting"].Value > 0:
		return checkOf(s, HealthWarning, "full, and requests wait")
	case full && p.most["preemption_rate"].Value > preempting:
		return checkOf(s, HealthWarning, "full, and requests are preempted")
	case full && !p.knows("requests_waiting"):
		return checkOf(s, HealthWarning, "full; the queue was not measured")
	case full:
		return checkOf(s, Healthy, "full, but no request waits")
	}
	return checkOf(s, Healthy, "")
}

// budgetOf rates the error budget with the least left. A spent budget describes the last 30 days,
// not the present, so it is only a warning.
func budgetOf(s state.Sample) Check {
	of := map[string]string{"ttft": "first tokens in time", "itl": "tokens in time", "e2e": "whole requests in time",
		"errors": "requests without error"}[s.Text]
	if of == "" {
		of = "its objective"
	}
	if s.Value <= 0 {
		return checkOf(s, HealthWarning, "the 30-day error budget for "+of+" is spent")
	}
	return checkOf(s, Healthy, "30-day budget for "+of)
}

// complete checks that all workers are ready. If Kubernetes reports replicas it compares those that
// are wanted and ready, since a rollout has extra pods. Otherwise it counts the known pods. A
// missing worker is a warning, since others may carry its load.
func (p *Pool) complete() (Check, bool) {
	want, ready := p.most["replicas_desired"].Value, p.least["replicas_ready"].Value
	signal, what := "replicas_ready", "replicas are ready"
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
		return Check{}, false
	}
	c := Check{Status: Healthy, Signal: signal, Value: &ready, Unit: "pods"}
	if ready < want {
		c.Status, c.Note = HealthWarning, fmt.Sprintf("%g of %g %s", ready, want, what)
	}
	if ready == 0 {
		c.Status = HealthCritical
	}
	return c, true
}

// AtLeast raises the overall status to the given one if that is worse.
func (p *Pool) AtLeast(said Status) {
	if healthRank[said] > healthRank[p.Overall] {
		p.Overall = said
	}
}

// gpu rates the GPUs: an idle GPU while requests wait, and a busy GPU while latency or errors are
// bad.
func (p *Pool) gpu(felt Status) Check {
	high, ok := p.most["gpu_util"]
	switch low := p.least["gpu_util"]; {
	case !ok:
		return Check{Status: Unknown, Signal: "gpu_util"}
	case low.Value < gpuIdle && p.most["requests_waiting"].Value > idleWaiting:
		return checkOf(low, HealthWarning, "mostly idle while requests wait")
	case high.Value > gpuBusy && felt == Unknown:
		return checkOf(high, HealthWarning, "busy; latency and errors were not measured")
	case high.Value > gpuBusy && felt != Healthy:
		return checkOf(high, HealthWarning, "busy, and users feel it")
	case high.Value > gpuBusy:
		return checkOf(high, Healthy, "busy, but no request is late")
	}
	return checkOf(high, Healthy, "")
}
