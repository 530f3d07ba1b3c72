package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// followPause is the time between two looks of a follower at the position of the active process,
// while an input waits for its commit.
const followPause = 100 * time.Millisecond

// completeTime is the time in which a new active process completes its copy. A copy that lags more
// is dropped: in that time 20,000 incidents can be read (BenchmarkTakeover in
// cmd/paramedic/service).
const completeTime = 2 * time.Second

// awaitCommit returns when the active process has committed an input. A follower applies only what
// was committed, so that its copy is one that a takeover can continue with.
func (k *Keeper) awaitCommit(ctx context.Context, p *partition, in *state.Input) error {
	for p.committed < in.Seq {
		p.backlog.hold(in)
		at, err := k.cfg.Store.Committed(ctx, p.n)
		if err != nil && !errors.Is(err, state.ErrUnavailable) { // the next look may get an answer
			return fmt.Errorf("asking for the position of partition %d: %w", p.n, err)
		}
		if p.committed = max(p.committed, at); p.committed >= in.Seq {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPause):
		}
	}
	return nil
}

// resume continues with the copy of a follower that becomes active: it applies what was committed
// since, and compares the copy with the commit. It returns false if the partition must be loaded.
func (k *Keeper) resume(ctx context.Context, p *partition) (fence state.Fence, resumed bool) {
	if !p.whole {
		return state.Fence{}, false
	}
	err := k.followToEnd(ctx, p)
	if err == nil {
		fence, err = k.cfg.Store.Resume(ctx, p.n, p.fence)
	}
	if err != nil {
		k.cfg.Logger.InfoContext(ctx, "the copy of a partition is not that of the last commit, Paramedic reads the partition",
			"partition", p.n, "err", err)
		return state.Fence{}, false
	}
	return fence, true
}

// followToEnd applies the committed inputs that the copy lacks.
func (k *Keeper) followToEnd(ctx context.Context, p *partition) (err error) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	if p.committed, err = k.cfg.Store.Committed(ctx, p.n); err != nil {
		return err
	}
	if p.fence.Position >= p.committed {
		return nil
	}
	reader, err := k.cfg.Store.Inputs(ctx, p.n, p.fence.Position)
	if err != nil {
		return err
	}
	defer reader.Close()
	for p.fence.Position < p.committed {
		in, err := k.next(ctx, p, reader)
		if err != nil {
			return err
		}
		if in.Seq > p.committed {
			return errors.New("the log lacks an input that was committed")
		}
		if _, err := k.apply(ctx, p, reader, in); err != nil {
			return err
		}
	}
	return nil
}

// replace takes a board that was read from the store.
func (p *partition) replace(b *fold.Board, fence state.Fence, active bool) {
	lists := listingsOf(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board, p.lists, p.fence, p.active, p.delivers, p.whole = b, lists, fence, active, false, !active
	p.loaded = true
	p.committed = fence.Position
}

// open shows the partition as ready.
func (p *partition) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.reason = true, ""
}

// takeOver makes the copy of a follower the board of the active process.
func (p *partition) takeOver(fence state.Fence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fence, p.active, p.delivers, p.whole = fence, true, false, false
}
