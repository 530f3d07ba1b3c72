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
		KVLeak:         func(w *worker) bool { return w.eng.leaky },
		EngineHang:     func(w *worker) bool { return w.eng.hung },
		GPUThrottle:    func(w *worker) bool { return w.gpus[0].clock < fullClock/2 },
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
	if !f.faults[0].worker.node.down {
		t.Error("a machine that died is back")
	}
}
