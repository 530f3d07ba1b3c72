package service

import (
	"context"
	"runtime"
	gometrics "runtime/metrics"
	"testing"
)

// After a storm the memory of a quiet process goes back to the system, a few times.
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
	for range looksAfter {
		m.look()
	}
	if m.look() {
		t.Error("memory is given back again and again")
	}
}

// A small heap grows by the room before it is collected, and a larger one as usual.
func TestSmallHeapGrowsByTheRoom(t *testing.T) {
	runtime.GC()
	live := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	gometrics.Read(live)
	room := 8 * live[0].Value.Uint64()
	if got := percentFor(100, room); got < 500 || got > 800 {
		t.Errorf("GOGC is %d at an eighth of the room, want a little less than 800", got)
	}
	if got := percentFor(100, 2); got != 100 {
		t.Errorf("GOGC is %d with little room, want the usual", got)
	}

	ctx, stop := context.WithCancel(t.Context())
	percent := []gometrics.Sample{{Name: "/gc/gogc:percent"}}
	collected := func() uint64 {
		runtime.GC()
		gometrics.Read(percent)
		return percent[0].Value.Uint64()
	}
	gometrics.Read(percent)
	usual := percent[0].Value.Uint64()
	keepRoom(ctx, 64*live[0].Value.Uint64())
	eventually(t, "GOGC is raised", func() bool { return collected() > 10*usual })
	stop()
	eventually(t, "GOGC is as it was", func() bool { return collected() == usual })
}
