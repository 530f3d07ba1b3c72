package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/lab"
)

// A Double holds two independent faults: on two pools of one cluster, or on two workers of one
// pool.
type Double struct {
	A, B    string
	OnePool bool
}

// Name returns A+B, or A+B@one for faults in one pool.
func (d Double) Name() string {
	name := d.A + "+" + d.B
	if d.OnePool {
		name += "@one"
	}
	return name
}

// local lists the faults that break one worker, GPU or machine.
var local = []string{lab.EngineHang, lab.GPUFault, lab.GPUThrottle, lab.KVLeak, lab.HostMemoryLeak, lab.GPUMemoryLeak, lab.OOMKilled,
	lab.NodeFailure}

// Doubles returns pairs on two pools, with every fault in two of them, and all pairs of local
// faults in one pool.
func Doubles() []Double {
	var out []Double
	faults := lab.Faults()
	for i, a := range faults {
		if b := faults[(i+3)%len(faults)]; a != b {
			out = append(out, Double{A: a, B: b})
		}
	}
	for i, a := range local {
		for _, b := range local[i+1:] {
			out = append(out, Double{A: a, B: b, OnePool: true})
		}
	}
	return out
}

// ParseDouble parses a pair's name.
func ParseDouble(name string) (Double, error) {
	pair, one := strings.CutSuffix(name, "@one")
	a, b, ok := strings.Cut(pair, "+")
	if !ok || !slices.Contains(lab.Faults(), a) || !slices.Contains(lab.Faults(), b) || a == b {
		return Double{}, fmt.Errorf("double %q is not FAULT+FAULT or FAULT+FAULT@one with two different faults", name)
	}
	return Double{A: a, B: b, OnePool: one}, nil
}

// NewDouble returns the scenarios of a pair, one for each pool. The second fault begins with the
// first, or up to three minutes later.
func NewDouble(d Double, seed uint64) ([]Scenario, error) {
	first, err := New(d.A, seed)
	if err != nil {
		return nil, err
	}
	second, err := New(d.B, seed+5000)
	if err != nil {
		return nil, err
	}
	later := time.Duration(seed%4) * time.Minute
	for i := range second.Faults {
		second.Faults[i].At += later
	}
	if d.OnePool {
		first.Name = d.Name()
		first.Story += " In the same pool: " + second.Story
		for _, f := range second.Faults {
			f.Worker = 2
			first.Faults = append(first.Faults, f)
		}
		return []Scenario{first}, nil
	}
	second.Config.Pool, second.Config.Model, second.Config.Index = "vllm-qwen", "qwen-32b", 1
	return []Scenario{first, second}, nil
}
