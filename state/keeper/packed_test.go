package keeper_test

import (
	"fmt"
	"log/slog"
	"testing"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
)

// Inputs of one message share a position. A commit between them would skip the rest.
func TestPackedInputsCommitTogether(t *testing.T) {
	dir, clock := t.TempDir(), newHandClock()
	b := start(t, dir, clock)
	const pools = 100 // each an incident: more changes than a commit takes of single inputs
	var inputs []state.Input
	for i := range pools {
		inputs = append(inputs, alert(fmt.Sprint(i), fmt.Sprint("pool-", i), clock.Now()))
	}
	if err := b.Append(t.Context(), inputs...); err != nil {
		t.Fatal(err)
	}
	until(t, "every pool has an incident", func() bool { return len(b.Incidents()) == pools })
	b.stop()
	b = start(t, dir, clock)
	if n := len(b.Incidents()); n != pools {
		t.Errorf("%d incidents after a restart, want %d", n, pools)
	}
}

// A mistake in the rules costs one input of a message.
func TestPoisonSparesPackedInputs(t *testing.T) {
	store, clock := openIn(t, t.TempDir()), state.SystemClock{}
	b := run(t, store, keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: fragile{}, Routing: fragile{}, Settings: state.DefaultSettings()}}))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	if err := b.Append(t.Context(), alert("1", "a", clock.Now()), alert("2", "poison", clock.Now()),
		alert("3", "b", clock.Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "the others count", func() bool { return len(b.Incidents()) == 2 && b.SetAside() == 1 })
	if _, newest := b.Skipped(); newest.Seq != 1 || newest.Part != 1 {
		t.Errorf("input %d.%d was set aside, want 1.1", newest.Seq, newest.Part)
	}
}
