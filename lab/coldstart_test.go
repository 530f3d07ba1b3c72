package lab

import (
	"testing"
	"time"
)

// Replacements load for ten minutes without a failure. A restart makes the load begin again.
func TestColdStartIsNotShortenedByRestart(t *testing.T) {
	ready := func(kill bool) int {
		f := broken(t, Config{Seed: 1}, Fault{Name: ColdStart}, 12*time.Minute)
		loading := 0
		for _, p := range f.Pods() {
			if p.Ready {
				continue
			}
			loading++
			if p.Restarts != 0 || p.Waiting != "" || p.LastTermination != "" {
				t.Errorf("%s failed: %+v", p.Name, p)
			}
			if kill {
				f.terminate(f.workers[len(f.workers)-1], "impatience")
			}
		}
		if loading != 2 {
			t.Errorf("%d workers load, want 2", loading)
		}
		f.Advance(f.Start().Add(16 * time.Minute))
		return f.Deployment().Ready
	}
	if n := ready(false); n != 4 {
		t.Errorf("%d of 4 ready after the cold start", n)
	}
	if n := ready(true); n >= 4 {
		t.Errorf("%d of 4 ready though one was killed as it loaded", n)
	}
}
