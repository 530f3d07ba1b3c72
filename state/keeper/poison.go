package keeper

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"paramedic/state"
	"paramedic/state/fold"
)

// A logPlace identifies an input of the log.
type logPlace struct {
	seq  uint64
	part int
}

func placeOf(in state.Input) logPlace { return logPlace{in.Seq, in.Part} }

// next reads the next input. One that cannot be decoded comes without content, and applyTo skips
// it.
func (k *Keeper) next(ctx context.Context, p *partition, reader state.InputReader) (state.Input, error) {
	in, err := reader.Next(ctx)
	var broken *state.UnreadableError
	if errors.As(err, &broken) {
		in = state.Input{Seq: broken.Seq, Part: broken.Part, More: broken.More, At: k.cfg.Clock.Now()}
		k.setAside(ctx, p, in, err.Error())
		return in, nil
	}
	if err != nil {
		return in, fmt.Errorf("reading inputs of partition %d: %w", p.n, err)
	}
	return in, nil
}

// applyTo applies an input to a board. If the rules panic, the board may be half changed: the
// caller must drop it and load it again, and the input is skipped then.
func (k *Keeper) applyTo(ctx context.Context, p *partition, b *fold.Board, in state.Input) (err error) {
	if p.poison[placeOf(in)] {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			k.setAside(ctx, p, in, fmt.Sprintf("the rules panicked: %v", cause), "stack", string(debug.Stack()))
			err = fmt.Errorf("applying input %d of partition %d: the rules panicked: %v", in.Seq, p.n, cause)
		}
	}()
	k.cfg.Fold.Apply(b, in)
	return nil
}

// setAside makes the partition skip an input, so that it does not block those behind it. The input
// stays in the log until its retention ends.
func (k *Keeper) setAside(ctx context.Context, p *partition, in state.Input, reason string, more ...any) {
	if p.poison[placeOf(in)] {
		return
	}
	p.poison[placeOf(in)] = true
	k.aside.Add(1)
	k.skipped.Store(&state.SkippedInput{Partition: p.n, Seq: in.Seq, Part: in.Part, At: k.cfg.Clock.Now(), Reason: reason})
	k.cfg.Logger.ErrorContext(ctx, "an input cannot be applied, Paramedic sets it aside: please report this",
		append([]any{"partition", p.n, "input", in.Seq, "part", in.Part, "err", reason}, more...)...)
}

// SetAside returns how many inputs this process has set aside because they cannot be applied.
func (k *Keeper) SetAside() uint64 { return k.aside.Load() }

// Skipped returns how many inputs this process has set aside, and the newest of them.
func (k *Keeper) Skipped() (n uint64, newest state.SkippedInput) {
	if last := k.skipped.Load(); last != nil {
		newest = *last
	}
	return k.aside.Load(), newest
}
