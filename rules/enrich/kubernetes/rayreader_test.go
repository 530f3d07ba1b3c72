package kubernetes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/rules/enrich/ray/raytest"
	"paramedic/state"
)

var someCluster = object{"llm", "RayCluster", "chat-x7k2p"}

// slowHead returns a head that waits before each answer, and its count of requests.
func slowHead(t *testing.T, wait func(*http.Request)) (heads map[object]string, asked *atomic.Int32) {
	t.Helper()
	d, n := &raytest.Dashboard{}, &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		wait(r)
		d.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return map[object]string{someCluster: srv.URL}, n
}

// gatherings runs n gatherings in parallel and returns their notes. All have started when begun is
// done.
func gatherings(ctx context.Context, r *rayReader, n int, heads map[object]string, begun *sync.WaitGroup) [][]state.Missing {
	var wg sync.WaitGroup
	out := make([][]state.Missing, n)
	begun.Add(n)
	for i := range n {
		wg.Go(func() {
			begun.Done()
			_, out[i] = r.read(ctx, heads, now)
		})
	}
	wg.Wait()
	return out
}

// Gatherings that start during a request wait for its answer.
func TestParallelGatheringsQueryRayOnce(t *testing.T) {
	var begun sync.WaitGroup
	heads, asked := slowHead(t, func(*http.Request) { begun.Wait() })
	for _, notes := range gatherings(t.Context(), newRayReader(), 20, heads, &begun) {
		if len(notes) > 0 {
			t.Errorf("notes %v", notes)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests, want one for groups and one for nodes", n)
	}
}

// Parallel gatherings wait together for a head that hangs, and each reports it.
func TestHangingRayHeadIsAwaitedOnce(t *testing.T) {
	heads, asked := slowHead(t, func(r *http.Request) { <-r.Context().Done() })
	for _, notes := range gatherings(t.Context(), newRayReader(), 5, heads, &sync.WaitGroup{}) {
		if len(notes) != 1 || !strings.Contains(notes[0].Reason, "no answer in time") {
			t.Errorf("notes %v", notes)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// If the gathering's own time ended, the head counts as not asked, so the next gathering asks it.
func TestExpiredGatheringDoesNotBlameRay(t *testing.T) {
	var quick atomic.Bool
	heads, _ := slowHead(t, func(r *http.Request) {
		if !quick.Load() {
			<-r.Context().Done()
		}
	})
	r := newRayReader()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, notes := r.read(ctx, heads, now); len(notes) != 1 {
		t.Errorf("notes %v", notes)
	}
	quick.Store(true)
	if answers, notes := r.read(t.Context(), heads, now); len(answers) != 1 || len(notes) > 0 {
		t.Errorf("%d answers, notes %v", len(answers), notes)
	}
}
