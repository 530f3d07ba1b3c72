package topology

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"paramedic/state"
)

// A PoolPhase is diagnosed on its own: a whole pool, or the prefill or decode workers of a
// disaggregated one.
type PoolPhase struct {
	Scope state.Scope
	Role  string // empty: workers of any role
}

// Phases divides a scope by the roles of its workers. Normal values of one phase are a problem in
// the other, and their mean is neither. A prefill worker holds blocks and runs nothing; a decode
// worker computes no prompts. If the alerts name workers, only their roles count.
func (t *Topology) Phases(s state.Scope, ev *state.Evidence) []PoolPhase {
	roles := map[string]bool{}
	named := map[string]bool{}
	if ev != nil {
		for _, w := range ev.Workers {
			if w.Role == "" || !t.InScope(
				state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: w.Model, Pod: w.Pod, Node: w.Node}, s) {
				continue
			}
			roles[w.Role] = true
			if slices.Contains(s.Pods, w.Pod) {
				named[w.Role] = true
			}
		}
	}
	if len(named) > 0 {
		roles = named
	}
	if len(roles) == 0 || s.Pool == "" {
		return []PoolPhase{{Scope: s}}
	}
	var out []PoolPhase
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		out = append(out, PoolPhase{s, role})
	}
	return out
}

// PoolsIn returns the scopes of the pools that a scope without a pool can mean.
func (t *Topology) PoolsIn(s state.Scope) []state.Scope {
	var out []state.Scope
	for _, key := range slices.Sorted(maps.Keys(t.Pools)) {
		w, model := t.Pools[key], t.modelOf(key)
		elsewhere := t.several[key] && s.Model != "" && !slices.Contains(t.ofModel[strings.ToLower(s.Model)], key)
		if elsewhere || !t.InScope(state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: model, Pod: w.Pod}, s) {
			continue
		}
		n := s
		n.Namespace, n.Pool, n.Model = w.Namespace, w.Pool, cmp.Or(model, s.Model)
		out = append(out, n)
	}
	return out
}
