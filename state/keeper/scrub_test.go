package keeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// A board with changes that are not committed has entries that the store cannot have.
func TestOnlyCommittedTimelinesAreChecked(t *testing.T) {
	board, err := fold.LoadBoard([]state.Record{{Key: "incident.INC-1", Value: []byte(`{"id": "INC-1", "status": "open", "entries": 3}`)}})
	if err != nil {
		t.Fatal(err)
	}
	p := partitionOf(0, board)
	k := &Keeper{parts: []*partition{p}}
	for _, c := range []struct{ ready, active, want bool }{{true, true, true}, {false, true, false}, {true, false, false}} {
		p.ready, p.active = c.ready, c.active
		if in, ok := k.committed("INC-1"); ok != c.want || ok && in.Entries != 3 {
			t.Errorf("ready %v, active %v: got %d entries, %v, want %v", c.ready, c.active, in.Entries, ok, c.want)
		}
	}
}

// An unreadableStore answers each listing with an error.
type unreadableStore struct {
	state.Store
	err error
}

func (s unreadableStore) Partition(string) int { return 0 }

func (s unreadableStore) List(context.Context, int, string) ([]state.Record, error) {
	return nil, s.err
}

func TestUnreadableTimelinesCountAsLost(t *testing.T) {
	board, err := fold.LoadBoard([]state.Record{{Key: "incident.INC-1", Value: []byte(`{"id": "INC-1", "status": "open", "entries": 3}`)}})
	if err != nil {
		t.Fatal(err)
	}
	p := partitionOf(0, board)
	p.ready, p.active = true, true
	for err, want := range map[error]int{
		fmt.Errorf("%w: bits flipped", state.ErrDamaged): 1, errors.New("no JSON"): 1, fmt.Errorf("%w: no leader", state.ErrUnavailable): 0,
	} {
		k := &Keeper{cfg: Config{Store: unreadableStore{err: err}}, parts: []*partition{p}}
		if lost, why := k.lostEntries(t.Context(), "INC-1"); lost != want || (why != nil) != (want > 0) {
			t.Errorf("%q counts as %d lost entries (%v), want %d", err, lost, why, want)
		}
	}
}

func TestTimelinesAreCheckedInTwelveHours(t *testing.T) {
	for timelines, want := range map[int]time.Duration{0: 10 * time.Minute, 8: 10 * time.Minute, 11_520: 30 * time.Second, 1_000_000: 2 * time.Second} {
		if got := scrubPause(timelines); got != want {
			t.Errorf("%d timelines are checked every %s, want %s", timelines, got, want)
		}
	}
}
