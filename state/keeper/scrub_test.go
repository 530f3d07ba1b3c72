package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	for _, c := range []struct {
		ready, active bool
		want          int
	}{{true, true, 3}, {false, true, 0}, {true, false, 0}} {
		p.ready, p.active = c.ready, c.active
		if got := p.committedEntries([]state.IncidentID{"INC-1", "INC-2"}); got["INC-1"] != c.want || got["INC-2"] != 0 {
			t.Errorf("ready %v, active %v: got %v, want %d entries of INC-1", c.ready, c.active, got, c.want)
		}
	}
}

// An unreadableStore answers each listing with INC-1 in it with an error. Other timelines have one
// entry.
type unreadableStore struct {
	state.Store
	err error
}

func (s unreadableStore) List(_ context.Context, _ int, prefixes ...string) (records []state.Record, err error) {
	for _, prefix := range prefixes {
		if prefix == "timeline.INC-1" {
			return nil, s.err
		}
		records = append(records, state.Record{Key: prefix + ".1",
			Value: fmt.Appendf(nil, `{"incident": %q, "n": 1}`, strings.TrimPrefix(prefix, "timeline."))})
	}
	return records, nil
}

// One timeline that cannot be read must not hide the losses of those that are checked with it.
func TestUnreadableTimelinesCountAsLost(t *testing.T) {
	board, err := fold.LoadBoard([]state.Record{{Key: "incident.INC-1", Value: []byte(`{"id": "INC-1", "status": "open", "entries": 3}`)},
		{Key: "incident.INC-2", Value: []byte(`{"id": "INC-2", "status": "open", "entries": 3}`)},
		{Key: "incident.INC-3", Value: []byte(`{"id": "INC-3", "status": "open", "entries": 1}`)}})
	if err != nil {
		t.Fatal(err)
	}
	p := partitionOf(0, board)
	p.ready, p.active = true, true
	for err, want := range map[error]string{
		fmt.Errorf("%w: bits flipped", state.ErrDamaged):  "INC-1 1 true, INC-2 2 false, ",
		errors.New("no JSON"):                             "INC-1 1 true, INC-2 2 false, ",
		fmt.Errorf("%w: no leader", state.ErrUnavailable): "",
	} {
		k := &Keeper{cfg: Config{Store: unreadableStore{err: err}}, parts: []*partition{p}}
		got := ""
		for _, l := range k.losses(t.Context(), []state.IncidentID{"INC-1", "INC-2", "INC-3"}) {
			got += fmt.Sprintf("%s %d %v, ", l.incident, l.entries, l.err != nil)
		}
		if got != want {
			t.Errorf("%q: the losses are %q, want %q", err, got, want)
		}
	}
}

// A countingStore counts the listings.
type countingStore struct {
	state.Store
	lists *int
}

func (s countingStore) List(context.Context, int, ...string) ([]state.Record, error) {
	*s.lists++
	return nil, nil
}

// Many long timelines must not be in memory at once.
func TestLongTimelinesAreReadOneByOne(t *testing.T) {
	for entries, want := range map[int]int{scrubEntries / 2: 1, scrubEntries/2 + 1: 2} {
		one := func(id string) state.Record {
			return state.Record{Key: "incident." + id, Value: fmt.Appendf(nil, `{"id": %q, "status": "open", "entries": %d}`, id, entries)}
		}
		board, err := fold.LoadBoard([]state.Record{one("INC-1"), one("INC-2")})
		if err != nil {
			t.Fatal(err)
		}
		p, lists := partitionOf(0, board), 0
		p.ready, p.active = true, true
		k := &Keeper{cfg: Config{Store: countingStore{lists: &lists}}, parts: []*partition{p}}
		if got := k.losses(t.Context(), []state.IncidentID{"INC-1", "INC-2"}); len(got) != 2 || lists != want {
			t.Errorf("two timelines of %d entries: %v after %d reads, want both after %d", entries, got, lists, want)
		}
	}
}

func TestTimelinesAreCheckedInTwelveHours(t *testing.T) {
	for timelines, want := range map[int]time.Duration{0: 10 * time.Minute, 64: 10 * time.Minute, 92_160: 30 * time.Second, 2_000_000: 2 * time.Second} {
		if got := scrubPause(timelines); got != want {
			t.Errorf("%d timelines are checked every %s, want %s", timelines, got, want)
		}
	}
}
