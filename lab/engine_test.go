package lab

import (
	"testing"
	"time"
)

func TestHungEngineLooksAlive(t *testing.T) {
	f := scenarioAt(t, EngineHang, 7, 13*time.Minute)
	a := f.Pods()[1]
	f.Advance(f.Start().Add(14 * time.Minute))
	b := f.Pods()[1]
	if !b.Ready || b.Running == 0 || a.GeneratedTokens != b.GeneratedTokens {
		t.Errorf("%+v then %+v", a, b)
	}
	if g := f.workers[1].gpus[0]; g.util < 95 || g.power > 250 || g.tensor > 0.05 {
		t.Errorf("its GPU: util %.0f, power %.0f W, tensor %.2f", g.util, g.power, g.tensor)
	}
}

func TestMemoryIsReservedHealthyOrNot(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	for _, g := range f.nodes[0].gpus {
		if r := g.usedMiB() / gpuMemoryMiB; r < 0.92 || r > 0.95 {
			t.Errorf("FB_USED is %.3f of the memory", r)
		}
	}
}
