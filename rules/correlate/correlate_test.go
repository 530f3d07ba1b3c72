package correlate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"paramedic/rules/topology"
	"paramedic/state"
)

// Correlate skips entities without a name. They are close to no entity in any topology.
func TestNamelessEntityIsCloseToNone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	name := func(kind string) string {
		if n := r.IntN(4); n > 0 {
			return fmt.Sprint(kind, n)
		}
		return ""
	}
	for range 2000 {
		var workers []state.Worker
		for range r.IntN(6) {
			workers = append(workers, state.Worker{Namespace: name("ns"), Pod: name("pod"), Pool: name("pool"), Model: name("m"),
				Node: name("node"), Instance: name("addr"), Owner: name("pool"), Group: name("g"), GPUs: []string{name("gpu")}})
		}
		top := topology.NewTopology(workers)
		bare := state.Entity{Cluster: name("c"), Namespace: name("ns")}
		other := state.Entity{Namespace: name("ns"), Pod: name("pod"), Pool: name("pool"), Model: name("m"), Node: name("node"),
			Instance: name("addr"), GPU: name("gpu"), Job: name("pool"), Service: name("pool")}
		x, y := top.Resolve(bare), top.Resolve(other)
		if a, b := proximity(&x, &y, top), proximity(&y, &x, top); a != linkNone || b != linkNone {
			t.Fatalf("%+v is close to %+v: %v, %v", bare, other, a, b)
		}
	}
}
