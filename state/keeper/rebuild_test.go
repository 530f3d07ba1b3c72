package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// A brokenStore has a log, and records that are damaged until they are written anew.
type brokenStore struct {
	state.Store
	log     []state.Input
	written []state.Record
}

func (b *brokenStore) Partitions() int      { return 1 }
func (b *brokenStore) Partition(string) int { return 0 }

func (b *brokenStore) Append(_ context.Context, inputs ...state.Input) error {
	if len(b.log) > 50 {
		return errors.New("this goes on and on")
	}
	for _, in := range inputs {
		in.Seq = uint64(len(b.log) + 1)
		b.log = append(b.log, in)
	}
	return nil
}

func (b *brokenStore) damage() *state.DamagedError {
	n := uint64(len(b.log))
	return &state.DamagedError{Wrong: "a test", Inputs: n, Last: n}
}

func (b *brokenStore) Load(context.Context, int, state.Decoder) ([]any, state.Fence, error) {
	return nil, state.Fence{}, b.damage()
}

func (b *brokenStore) Inputs(_ context.Context, _ int, after uint64) (state.InputReader, error) {
	return &logReader{inputs: b.log[after:]}, nil
}

func (b *brokenStore) Replace(_ context.Context, _ int, _ state.Fence, to uint64, records []state.Record) (state.Fence, error) {
	b.written = records
	return state.Fence{Position: to, Rev: 1}, nil
}

type logReader struct{ inputs []state.Input }

func (r *logReader) Next(context.Context) (state.Input, error) {
	if len(r.inputs) == 0 {
		return state.Input{}, errors.New("the log has no more")
	}
	in := r.inputs[0]
	r.inputs = r.inputs[1:]
	return in, nil
}

func (r *logReader) Buffered() int { return len(r.inputs) }
func (r *logReader) Waiting() int  { return len(r.inputs) }
func (r *logReader) End() uint64   { return 0 }
func (r *logReader) Close()        {}

// A run that goes on after its incident was resolved has work to do, and wants its effect again
// after any outcome. To give it up would never end.
func TestRebuildEndsDespiteUnfinishedRun(t *testing.T) {
	clock := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	f, live := simpleFold(), fold.NewBoard()
	store := &brokenStore{}
	keep := func(in state.Input) {
		if in.Cluster, in.At = "prod", clock; store.Append(t.Context(), in) != nil {
			t.Fatal("the log is full")
		}
		in.Seq = uint64(len(store.log))
		f.Apply(live, in)
	}
	keep(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{alertOf("llama")}}})
	in := live.Incidents()[0].ID
	keep(state.Input{Evidence: &state.Evidence{Incident: in, At: clock,
		Samples: []state.Sample{{Signal: "verdict", Text: "kv_exhaustion"}}}})
	keep(state.Input{Action: &state.ActionEvent{Action: planFor(in, "ACT-1", clock)}})
	for _, to := range []state.ActionState{state.Admitted, state.Intent, state.Applied, state.Verifying} {
		known := live.Action("ACT-1").Clone()
		from := known.State
		if err := known.Move(to, clock, "", state.Actor{ID: "paramedic"}); err != nil {
			t.Fatal(err)
		}
		keep(state.Input{Action: &state.ActionEvent{From: from, Action: known}})
	}
	keep(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in, Actor: state.Actor{ID: "ana"}}})
	if live.Incident(in).Open() || live.Effect("run:ACT-1") == nil {
		t.Fatalf("the incident is %s and its run has %v", live.Incident(in).Status, live.Effect("run:ACT-1"))
	}
	k := New(Config{Store: store, Fold: f, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	board, _, err := k.rebuild(t.Context(), k.parts[0], store.damage())
	if err != nil {
		t.Fatal(err)
	}
	if left := slices.Collect(board.EveryEffect()); board.Effect("run:ACT-1") == nil || board.Halt("prod") == nil || len(left) != 1 {
		t.Errorf("what is left to do is %v, halted %v; want the run alone, halted", left, board.Halt("prod"))
	}
}
