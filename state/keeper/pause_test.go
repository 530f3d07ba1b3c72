package keeper_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"paramedic/state"
)

// A countingStore counts the commits.
type countingStore struct {
	state.Store
	commits atomic.Int64
}

func (s *countingStore) Commit(ctx context.Context, partition int, fence state.Fence, position uint64,
	records []state.Record) (state.Fence, error) {
	s.commits.Add(1)
	return s.Store.Commit(ctx, partition, fence, position, records)
}

// Commits of few inputs follow each other after a pause, on a machine of any speed.
func TestCommitsWaitForMoreInputs(t *testing.T) {
	const pause = 20 * time.Millisecond
	store, clock := openIn(t, t.TempDir()), newHandClock()
	counted := &countingStore{Store: store}
	b := run(t, store, newKeeper(counted, clock))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	before, began := counted.commits.Load(), time.Now()
	for i := range 60 {
		if err := b.Append(t.Context(), alert(fmt.Sprint(i), "pool", clock.Now())); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all alerts are part of the incident", func() bool { return len(b.Incidents()) == 1 && b.Incidents()[0].AlertCount == 60 })
	if n, most := counted.commits.Load()-before, int64(time.Since(began)/pause)+2; n > most {
		t.Errorf("%d commits in %s, want at most %d", n, time.Since(began), most)
	}
}
