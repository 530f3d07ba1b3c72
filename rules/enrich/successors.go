package enrich

import (
	"slices"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// PodsPool returns the namespace and pool of a pod's name, or "" if the name does not show it.
func PodsPool(e state.Entity) string {
	if pool := topology.PoolOf(e.Pod); pool != "" {
		return e.Namespace + "/" + pool
	}
	return ""
}

// Inherited returns the value that each of a pool's current workers inherits from those that they
// replaced: a count is shared among them, and other values are averaged. It sorts before.
func Inherited(s signals.Signal, before []float64, successors int) float64 {
	slices.Sort(before) // a stable order, because a float sum depends on it
	sum, share := 0.0, len(before)
	for _, v := range before {
		sum += v
	}
	if signals.IsCount(s.Unit) {
		share = successors
	}
	return sum / float64(share)
}
