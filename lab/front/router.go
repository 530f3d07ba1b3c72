package front

import "math/rand/v2"

// Routing is the gateway's policy for picking a worker.
type Routing string

// The routings.
const (
	LeastLoaded Routing = "least-loaded" // fewest running and waiting requests
	RoundRobin  Routing = "round-robin"
)

// An Endpoint is a worker to which a router can send requests.
type Endpoint interface {
	Name() string // of its pod
	Load() int    // requests that run and wait
}

// A Router sends requests to workers that are in service.
type Router[E Endpoint] struct {
	Kind Routing
	// A skewed router sends this share of the requests to one pod, regardless of load.
	Skew    float64
	SkewPod string

	next int
}

// Pick returns the worker for the next request, or false if none is ready. The pod that is pinned
// gets the request if it is ready.
func (g *Router[E]) Pick(ready []E, pinned string, rng *rand.Rand) (E, bool) {
	if len(ready) == 0 {
		var none E
		return none, false
	}
	if g.Skew > 0 && rng.Float64() < g.Skew {
		pinned = g.SkewPod
	}
	for _, w := range ready {
		if w.Name() == pinned {
			return w, true
		}
	}
	g.next++
	if g.Kind == RoundRobin {
		return ready[g.next%len(ready)], true
	}
	best := ready[g.next%len(ready)]
	for i := range ready {
		if w := ready[(g.next+i)%len(ready)]; w.Load() < best.Load() {
			best = w
		}
	}
	return best, true
}
