package lab

import (
	"testing"
	"time"
)

// A fault that can end by itself ends with its time. A dead machine stays dead.
func TestFaultEndsWhenItsTimeIsOver(t *testing.T) {
	for name, broken := range map[string]func(w *worker) bool{
		HostMemoryLeak: func(w *worker) bool { return w.leakRate > 0 },
		GPUMemoryLeak:  func(w *worker) bool { return w.gpuLeak > 0 },
		KVLeak:         func(w *worker) bool { return w.eng.Leaky },
		EngineHang:     func(w *worker) bool { return w.eng.Hung },
		GPUThrottle:    func(w *worker) bool { return w.gpus[0].Slowdown() > 2 },
		OOMKilled:      func(w *worker) bool { return w.burst > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, Config{Seed: 1})
			if err := f.Inject(Fault{Name: name, At: time.Minute, For: 5 * time.Minute, Worker: 1}); err != nil {
				t.Fatal(err)
			}
			f.Advance(f.Start().Add(6*time.Minute - time.Second))
			w := f.faults[0].worker
			if !broken(w) {
				t.Fatal("the fault does not show")
			}
			f.Advance(f.Start().Add(10 * time.Minute))
			if broken(w) {
				t.Error("it goes on when its time is over")
			}
		})
	}
	f := newFleet(t, Config{Seed: 1})
	if err := f.Inject(Fault{Name: NodeFailure, At: time.Minute, For: time.Minute, Worker: 1}); err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(4 * time.Minute))
	if !f.faults[0].worker.node.Down {
		t.Error("a machine that died is back")
	}
}

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		at    float64
		want  float64
	}{{Step, 1, 1}, {Pulse, 60, 1}, {Pulse, 180, 0}, {Pulse, 250, 1}, {Sawtooth, 60, .25}, {Sawtooth, 300, .25}, {Gradual, 90, .5},
		{Gradual, 400, 1}} {
		f := newFleet(t, Config{Seed: 1})
		if err := f.Inject(Fault{Name: KVExhaustion, Shape: c.shape}); err != nil {
			t.Fatal(err)
		}
		if got := f.faults[0].level(c.at); got != c.want {
			t.Errorf("%s has %g of its strength after %g s, want %g", c.shape, got, c.at, c.want)
		}
	}
	if err := newFleet(t, Config{}).Inject(Fault{Name: KVExhaustion, Shape: "wave"}); err == nil {
		t.Error("a wave is a shape")
	}
}
