package machine

import (
	"math/rand/v2"
	"testing"

	"paramedic/lab/engine"
)

// pod is an owner whose engine decodes all the time.
type pod struct{ e *engine.Engine }

func (p *pod) Name() string           { return "pod" }
func (p *pod) Engine() *engine.Engine { return p.e }

// warm returns a GPU after half an hour of work.
func warm(cooling float64, of Trouble) *GPU {
	g := NewNode(0, 1, func() string { return "0" }).GPUs[0]
	e := engine.New(engine.Config{Settings: engine.Settings{}.WithDefaults(), Cost: engine.Cost{}.WithDefaults(2),
		Rand: rand.New(rand.NewPCG(1, 1))}, 0)
	e.Add(&engine.Request{Group: -1, Prompt: 1000, Output: 1e6, MaxTokens: 1e6})
	g.Owner, g.Cooling, g.Trouble = &pod{e}, cooling, of
	for now := 0.0; now < 1800; now += 0.5 {
		for e.Tick(now); e.StepEnd() < now+0.5; e.Begin(now) {
			e.Finish(e.StepEnd(), func(*engine.Request) {})
		}
		g.Observe(now, 0.5)
	}
	return g
}

func TestPoorCoolingLowersTheClock(t *testing.T) {
	if g := warm(1, Trouble{}); g.util < 95 || g.Slowdown() != 1 || len(g.slowed) > 0 {
		t.Errorf("a healthy GPU: %.0f %% busy, slowed by %.2f", g.util, g.Slowdown())
	}
	if g := warm(8, Trouble{}); g.temp < throttleFrom || g.Slowdown() < 1.5 || len(g.slowed) < 200 {
		t.Errorf("without a fan: %.0f °C, slowed by %.2f for %d s", g.temp, g.Slowdown(), len(g.slowed))
	}
	if g := warm(1, Trouble{Clock: 990, Brake: true}); g.Slowdown() != 2 || len(g.slowed) < 200 {
		t.Errorf("with a power brake: slowed by %.2f for %d s", g.Slowdown(), len(g.slowed))
	}
}

func TestNodeGivesOnlyFreeGPUs(t *testing.T) {
	n := NewNode(0, 4, func() string { return "0" })
	n.GPUs[1].Owner = &pod{}
	if got := n.Free(2); len(got) != 2 || got[0] != n.GPUs[0] || got[1] != n.GPUs[2] {
		t.Errorf("got %v", got)
	}
	if n.Free(4) != nil {
		t.Error("a GPU has two owners")
	}
	n.Mute, n.SilentAt = true, 100
	if n.Free(1) != nil || !n.SeenReady(100+Grace-1) || n.SeenReady(100+Grace) {
		t.Error("a silent node takes pods, or counts as ready for more or less than the grace period")
	}
}
