package lab

import "math/rand/v2"

// Routing is the gateway's policy for picking a worker.
type Routing string

// The routings.
const (
	LeastLoaded Routing = "least-loaded" // fewest running and waiting requests
	RoundRobin  Routing = "round-robin"
)

// A router sends requests to workers that are in service.
type router struct {
	kind Routing
	next int
	// A skewed router sends this share of the requests to one pod, regardless of load.
	skew    float64
	skewPod string
}

func (g *router) pick(ready []*worker, pinned string, rng *rand.Rand) *worker {
	if len(ready) == 0 {
		return nil
	}
	if g.skew > 0 && rng.Float64() < g.skew {
		pinned = g.skewPod
	}
	for _, w := range ready {
		if w.name == pinned {
			return w
		}
	}
	g.next++
	if g.kind == RoundRobin {
		return ready[g.next%len(ready)]
	}
	best := ready[g.next%len(ready)]
	for i := range ready {
		if w := ready[(g.next+i)%len(ready)]; w.load() < best.load() {
			best = w
		}
	}
	return best
}
