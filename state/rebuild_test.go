package state

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// A brokenStore has a log, and records that are damaged until they are written anew.
type brokenStore struct {
	Store
	log     []Input
	written []Record
}

func (b *brokenStore) Partitions() int      { return 1 }
func (b *brokenStore) Partition(string) int { return 0 }

func (b *brokenStore) Append(_ context.Context, inputs ...Input) error {
	if len(b.log) > 50 {
		return errors.New("this goes on and on")
	}
	for _, in := range inputs {
		in.Seq = uint64(len(b.log) + 1)
		b.log = append(b.log, in)
	}
	return nil
}

func (b *brokenStore) damage() *DamagedError {
	n := uint64(len(b.log))
	return &DamagedError{Wrong: "a test", Inputs: n, Last: n}
}

func (b *brokenStore) Load(context.Context, int, Decoder) ([]any, Fence, error) {
	return nil, Fence{}, b.damage()
}

func (b *brokenStore) Inputs(_ context.Context, _ int, after uint64) (InputReader, error) {
	return &logReader{inputs: b.log[after:]}, nil
}

func (b *brokenStore) Replace(_ context.Context, _ int, _ Fence, to uint64, records []Record) (Fence, error) {
	b.written = records
	return Fence{Position: to, Rev: 1}, nil
}

type logReader struct{ inputs []Input }

func (r *logReader) Next(context.Context) (Input, error) {
	if len(r.inputs) == 0 {
		return Input{}, errors.New("the log has no more")
	}
	in := r.inputs[0]
	r.inputs = r.inputs[1:]
	return in, nil
}

func (r *logReader) Buffered() int { return len(r.inputs) }
func (r *logReader) Waiting() int  { return len(r.inputs) }
func (r *logReader) Close()        {}

// A run that goes on after its incident was resolved has work to do, and its effect comes again
// whatever is said of it: giving it up would never come to an end.
func TestRebuildEndsWhereARunGoesOn(t *testing.T) {
	clock := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	s := newStory(t)
	store := &brokenStore{}
	keep := func(in Input) {
		if in.Cluster, in.At = "prod", clock; store.Append(t.Context(), in) != nil {
			t.Fatal("the log is full")
		}
		s.apply(in)
	}
	keep(Input{Alerts: &AlertBatch{Alerts: []Alert{s.make(Firing, "KVFull", "kv_pressure", "critical", "llama")}}})
	in := s.only()
	keep(Input{Evidence: &Evidence{Incident: in.ID, At: clock, Samples: []Sample{{Signal: "verdict", Text: "kv_exhaustion"}}}})
	keep(Input{Action: &ActionEvent{Action: s.remedy(in, "ACT-1", "auto")}})
	for _, to := range []ActionState{Admitted, Intent, Applied, Verifying} {
		keep(s.take(*s.board.actions["ACT-1"], to, ""))
	}
	keep(Input{Command: &Command{Verb: VerbResolve, Incident: in.ID, Actor: ana}})
	if in.Open() || s.board.effects["run:ACT-1"] == nil {
		t.Fatalf("the incident is %s and its run has %v", in.Status, s.board.effects["run:ACT-1"])
	}
	k := NewKeeper(KeeperConfig{Store: store, Fold: s.fold, Clock: SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	board, _, err := k.rebuild(t.Context(), k.parts[0], store.damage())
	if err != nil {
		t.Fatal(err)
	}
	if board.effects["run:ACT-1"] == nil || board.halts["prod"] == nil || len(board.effects) != 1 {
		t.Errorf("what is left to do is %v, halted %v; want the run alone, halted", board.effects, board.halts)
	}
}
