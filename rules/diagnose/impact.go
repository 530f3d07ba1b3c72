package diagnose

import (
	"slices"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/health"
	"paramedic/rules/topology"
	"paramedic/state"
)

const (
	// unusual is the factor above the baseline from which users feel a change, if the value is also
	// above its floor. It is the one at which late tokens rule out benign_alert.
	unusual = 2
	// shortQueue is the number of waiting requests up to which a queue is usual at any baseline.
	shortQueue = 5
)

// impactSignals groups the signals that show what users feel. One signal of each group has to be
// measured.
var impactSignals = [][]string{
	{"ttft_p99", "ttft_p95"},
	{"itl_p95"},
	{"requests_waiting", "queue_time_p95"},
	{"error_rate", "gateway_error_ratio"},
	{"preemption_rate", "requests_paused"},
}

// ratedAs names the signal whose threshold applies to a signal without one. The first token comes
// after the queue, and users do not see who failed their request.
var ratedAs = map[string]string{"ttft_p95": "ttft_p99", "queue_time_p95": "ttft_p99", "gateway_error_ratio": "error_rate"}

// floors holds the value that a signal has to exceed to be unusual. Signals that are missing here
// are not compared with their baselines: a share of failures is judged by itself, and a p99 has no
// baseline. Published guides call a first token after 0.3 s and 30 ms between tokens normal.
var floors = map[string]float64{"ttft_p95": 0.3, "itl_p95": 0.03, "requests_waiting": shortQueue, "preemption_rate": 0}

// impact returns the effect on the users of the pool that the alerts mean, or of all the pools that
// they can mean. It is unknown if the alerts do not name them: the health of a guessed pool is no
// evidence.
func impact(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) state.Impact {
	if ev == nil {
		return state.ImpactUnknown
	}
	top := topology.Topologies.Get().(*topology.Topology)
	defer top.Release()
	top.Learn(ev.Workers)
	scope := top.Correct(in.Scope)
	of := subject(c, in, scope, top, ev.About)
	lost := in.Scope.Pool != "" && scope.Pool == "" // the alerts name a pool without any worker
	if of.strange != "" || !of.known || lost {
		return state.ImpactUnknown
	}
	reading := c.WithUsed(append(slices.Concat(impactSignals...), "requests_running", "generation_tokens_rate")...)
	out := state.ImpactNone
	for _, scope := range usersOf(of.scopes, top) {
		view := evidence.Arrange(top, in, topology.PoolPhase{Scope: scope}, ev, reading)
		switch felt := impactIn(view); felt {
		case state.ImpactFelt:
			out = felt
		case state.ImpactUnknown:
			if out == state.ImpactNone {
				out = felt
			}
		}
		view.Release()
	}
	return out
}

// usersOf returns the pools of the scopes, without the pods and nodes that the alerts are about. Of
// a node, these are the pools of its workers. A node without workers stays, and nothing is measured
// for its users.
func usersOf(scopes []state.Scope, top *topology.Topology) []state.Scope {
	var out []state.Scope
	for _, s := range scopes {
		if s.Pool != "" || len(s.Nodes) == 0 {
			out = append(out, state.Scope{Cluster: s.Cluster, Namespace: s.Namespace, Pool: s.Pool, Model: s.Model})
			continue
		}
		for _, node := range s.Nodes {
			for _, w := range top.Nodes[node] {
				of := state.Scope{Cluster: s.Cluster, Namespace: w.Namespace, Pool: w.Pool, Model: w.Model}
				if !slices.ContainsFunc(out, func(o state.Scope) bool { return o.Namespace == of.Namespace && o.Pool == of.Pool }) {
					out = append(out, of)
				}
			}
			if len(top.Nodes[node]) == 0 {
				out = append(out, state.Scope{Cluster: s.Cluster, Nodes: []string{node}})
			}
		}
	}
	return out
}

// impactIn returns the effect on the users of the view's pool.
func impactIn(v *evidence.View) state.Impact {
	measured := true
	for _, group := range impactSignals {
		known := false
		for _, signal := range group {
			if isFelt(v, signal) {
				return state.ImpactFelt
			}
			known = known || isMeasured(v, signal)
		}
		measured = measured && known
	}
	switch {
	case stands(v):
		return state.ImpactFelt
	case !measured:
		return state.ImpactUnknown
	}
	return state.ImpactNone
}

// isMeasured reports whether the pool or each of its engines has a fresh value of the signal.
func isMeasured(v *evidence.View, signal string) bool {
	s := v.Series(signal)
	switch {
	case s == nil || !s.Whole.CurrentValue().OK:
		return false
	case s.OfPool():
		return true
	}
	told := slices.DeleteFunc(slices.Clone(v.Pods()), func(g *evidence.Subject) bool {
		own := g.Own(s)
		return own == nil || !condition.Some(own.Value).OK
	})
	return len(told) > 0 && v.Engines(told) == v.Engines(v.Pods())
}

// At least one worker in unusualShare must be far above its baseline. In a large pool with few
// requests each, a few workers are far above by chance.
const unusualShare = 10

// isFelt reports whether the signal is unhealthy or unusual for the pool, unhealthy for one of its
// workers, or unusual for a tenth of them.
func isFelt(v *evidence.View, signal string) bool {
	s := v.Series(signal)
	if s == nil {
		return false
	}
	if unhealthy, rises := rate(signal, s.Whole.CurrentValue(), s.Whole.BaselineValue()); unhealthy || rises {
		return true
	}
	risen := 0
	for _, g := range v.Pods() {
		own := g.Own(s)
		if own == nil {
			continue
		}
		unhealthy, rises := rate(signal, condition.Some(own.Value), condition.Optional(own.Baseline))
		if unhealthy {
			return true
		}
		if rises {
			risen++
		}
	}
	return risen > 0 && risen*unusualShare >= len(v.Pods())
}

// rate reports whether a value is over the threshold of the pool's health, and whether it is far
// above its baseline. Preemptions at their usual rate are not unhealthy.
func rate(signal string, now, before condition.Number) (unhealthy, rises bool) {
	if !now.OK {
		return false, false
	}
	rated := signal
	if as := ratedAs[signal]; as != "" {
		rated = as
	}
	unhealthy = !slices.Contains([]health.Status{health.Healthy, health.Unknown}, health.Rate(rated, now.V))
	floor, compared := floors[signal]
	rises = compared && before.OK && now.V > floor && now.V > unusual*before.V
	switch signal {
	case "preemption_rate":
		return unhealthy && (!before.OK || rises), false
	case "requests_paused":
		return now.V > 0, false
	}
	return unhealthy, rises
}

// stands reports whether a worker runs requests and produces no token. Its latencies are those of
// the requests before.
func stands(v *evidence.View) bool {
	return slices.ContainsFunc(v.Pods(), func(g *evidence.Subject) bool {
		running, tokens := g.NumberOf("requests_running"), g.NumberOf("generation_tokens_rate")
		return running.OK && running.V > 0 && tokens.OK && tokens.V == 0
	})
}
