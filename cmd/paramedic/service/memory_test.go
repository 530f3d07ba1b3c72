package service

import (
	"runtime"
	gometrics "runtime/metrics"
	"testing"
)

// After a storm the memory of a quiet process goes back to the system, once.
func TestMemoryGoesBackAfterAStorm(t *testing.T) {
	released := func() uint64 {
		s := []gometrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
		gometrics.Read(s)
		return s[0].Value.Uint64()
	}
	m := &memoryKeeper{}
	func() {
		storm := make([][]byte, 256)
		for i := range storm {
			storm[i] = make([]byte, 1<<20)
			for k := 0; k < len(storm[i]); k += 4096 {
				storm[i][k] = 1
			}
		}
		if m.look() {
			t.Error("memory was given back in the middle of a storm")
		}
		runtime.KeepAlive(storm)
	}()
	runtime.GC()
	before := released()
	if !m.look() {
		t.Fatal("nothing was given back after the storm")
	}
	if got := released(); got < before+128<<20 {
		t.Errorf("%d MB went back, want 256 MB", (int64(got)-int64(before))>>20)
	}
	if m.look() {
		t.Error("memory was given back twice")
	}
}
