package keeper_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"paramedic/state"
)

// A timedStore remembers the positions and times of the commits.
type timedStore struct {
	state.Store
	mu      sync.Mutex
	commits []timedCommit
}

type timedCommit struct {
	position   uint64
	began, end time.Time
}

func (s *timedStore) Commit(ctx context.Context, partition int, fence state.Fence, position uint64,
	records []state.Record) (state.Fence, error) {
	c := timedCommit{position: position, began: time.Now()}
	next, err := s.Store.Commit(ctx, partition, fence, position, records)
	c.end = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, c)
	return next, err
}

// After a commit of several inputs the next one waits for more. One of a few inputs delays nothing.
func TestCommitsWaitForMoreInputs(t *testing.T) {
	const pause = 20 * time.Millisecond
	store, clock := openIn(t, t.TempDir()), newHandClock()
	timed := &timedStore{Store: store}
	b := run(t, store, newKeeper(timed, clock))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	const together, rounds = 4, 10 // inputs that share a position
	for round := range rounds {
		var inputs []state.Input
		for i := range together {
			inputs = append(inputs, alert(fmt.Sprint(round, i), "pool", clock.Now()))
		}
		if err := b.Append(t.Context(), inputs...); err != nil {
			t.Fatal(err)
		}
		until(t, "its alerts are part of the incident", func() bool {
			all := b.Incidents()
			return len(all) == 1 && all[0].AlertCount == together*(round+1)
		})
	}
	timed.mu.Lock()
	defer timed.mu.Unlock()
	waited := 0
	for i := 2; i < len(timed.commits); i++ {
		last, now := timed.commits[i-1], timed.commits[i]
		if last.position == timed.commits[i-2].position {
			continue
		}
		if gap := now.began.Sub(last.end); gap < pause {
			t.Errorf("commit %d began %s after the one before, want %s at least", i, gap, pause)
		}
		waited++
	}
	if waited == 0 {
		t.Errorf("no commit had to wait: %+v", timed.commits)
	}
}
