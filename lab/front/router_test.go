package front

import (
	"math/rand/v2"
	"testing"
)

type endpoint struct {
	name string
	load int
}

func (e *endpoint) Name() string { return e.name }
func (e *endpoint) Load() int    { return e.load }

// picks counts the requests that each of four workers gets of a thousand.
func picks(r *Router[*endpoint], pinned string) map[string]int {
	ready := []*endpoint{{"a", 5}, {"b", 2}, {"c", 9}, {"d", 7}}
	rng, out := rand.New(rand.NewPCG(1, 1)), map[string]int{}
	for range 1000 {
		w, _ := r.Pick(ready, pinned, rng)
		out[w.name]++
	}
	return out
}

func TestRouterFollowsItsPolicy(t *testing.T) {
	if got := picks(&Router[*endpoint]{Kind: LeastLoaded}, ""); got["b"] != 1000 {
		t.Errorf("the least loaded worker is b, but they get %v", got)
	}
	if got := picks(&Router[*endpoint]{Kind: RoundRobin}, ""); got["a"] != 250 || got["d"] != 250 {
		t.Errorf("in turn they get %v", got)
	}
	if got := picks(&Router[*endpoint]{Kind: RoundRobin}, "c"); got["c"] != 1000 {
		t.Errorf("all are pinned to c, but they get %v", got)
	}
	if got := picks(&Router[*endpoint]{Kind: LeastLoaded, Skew: 0.7, SkewPod: "d"}, ""); got["d"] < 650 || got["d"]+got["b"] != 1000 {
		t.Errorf("d should get 0.7 of the requests and b the others, but they get %v", got)
	}
	if _, ok := (&Router[*endpoint]{}).Pick(nil, "", nil); ok {
		t.Error("a request was sent to a worker that is not there")
	}
}
