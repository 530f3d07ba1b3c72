package keeper

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"paramedic/state"
	"paramedic/state/keeper/agenda"
)

const (
	// maxUncommitted is the number of changed records at which the keeper commits although more
	// inputs wait. While a commit is on its way, it goes on up to the store's CommitRecords.
	maxUncommitted = 300
	// maxInARow is the number of commits for which readers wait while inputs wait, and rowTime the
	// time after which no other begins (look-up-max-ms of BenchmarkServe).
	maxInARow = 8
	rowTime   = 150 * time.Millisecond
	// yieldEvery is the time after which others that wait for a processor go first. An answer to a
	// webhook takes several turns of goroutines, and Go ends a turn only after 10 ms.
	yieldEvery = time.Millisecond
)

// A group holds the changes of the inputs of one commit.
type group struct {
	last    uint64 // the position behind them
	inputs  int
	full    bool // more inputs would make the commit too large
	records []state.Record
	entries []state.Entry
	moves   []agenda.Move
	traced  []Applied

	fence state.Fence // of its commit, or why it failed
	err   error
	done  chan struct{} // closed when fence and err are known
}

// writing reports whether the group's commit is on its way.
func (g *group) writing() bool {
	if g == nil {
		return false
	}
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// apply applies one input and those that wait behind it, and commits. It applies the inputs of the
// next commit while a full one is written, for at most maxInARow commits. It returns the number of
// inputs.
func (k *Keeper) apply(ctx context.Context, p *partition, reader state.InputReader, in state.Input) (inputs int, err error) {
	committed, err := k.applyInARow(ctx, p, reader, in)
	for _, g := range committed {
		inputs += g.inputs
		k.publish(g.entries, p.active)
		if len(g.traced) > 0 {
			k.cfg.Traced(g.traced)
		}
	}
	if err != nil {
		return inputs, err
	}
	k.signal()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return inputs, nil
}

// applyInARow returns the groups that were committed, also with an error. Readers wait meanwhile.
func (k *Keeper) applyInARow(ctx context.Context, p *partition, reader state.InputReader, in state.Input) (committed []*group, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.whole = false, false // until the commit no change may take effect
	var writing *group
	end := func() error {
		if writing == nil {
			return nil
		}
		g := writing
		writing = nil
		if err := k.endCommit(p, g); err != nil {
			return err
		}
		committed = append(committed, g)
		return nil
	}
	from, began := p.fence.Position, time.Now()
	for row := 1; err == nil; row++ {
		g, failed := k.applyGroup(ctx, p, reader, in, from, writing)
		if err := end(); err != nil {
			return committed, err
		}
		if failed != nil {
			return committed, failed
		}
		k.beginCommit(ctx, p, g)
		writing, from = g, g.last
		if !p.active || !g.full || row == maxInARow || time.Since(began) > rowTime || reader.Buffered() == 0 {
			break
		}
		in, err = k.next(ctx, p, reader)
	}
	if failed := end(); failed != nil {
		return committed, failed
	}
	if reader.Buffered() == 0 {
		p.backlog.caughtUp()
	}
	p.ready, p.whole = err == nil, err == nil && !p.active
	return committed, err
}

// applyGroup applies an input and those that wait behind it, until they have many changes. It goes
// on while the group before is being written. Inputs up to a position are on the board already.
func (k *Keeper) applyGroup(ctx context.Context, p *partition, reader state.InputReader, in state.Input, from uint64,
	before *group) (*group, error) {
	g, yielded := &group{last: from, done: make(chan struct{})}, time.Time{}
	for {
		if in.Seq > from {
			began := k.cfg.Clock.Now()
			p.backlog.begin(&in, began)
			if began.Sub(yielded) >= yieldEvery {
				runtime.Gosched()
				yielded = began
			}
			if err := k.applyTo(ctx, p, p.board, in); err != nil {
				return nil, err
			}
			if in.Trace != "" && k.cfg.Traced != nil && p.active {
				g.traced = append(g.traced, Applied{Input: in, Incidents: p.board.About(&in), Began: began})
			}
			now := k.cfg.Clock.Now()
			p.backlog.applied(&in, now)
			k.triaged.add(&in, now)
			g.last = in.Seq
			g.inputs++
		}
		changes := p.board.Changes()
		g.full = changes >= maxUncommitted && (!before.writing() || changes >= k.cfg.Store.CommitRecords())
		if !in.More && (g.full || reader.Buffered() == 0 || !p.active && in.Seq >= p.committed) {
			break
		}
		next, err := k.next(ctx, p, reader)
		if err != nil {
			return nil, err
		}
		in = next
	}
	g.moves = agenda.Changed(p.board)
	p.lists.follow(p.board)
	var err error
	g.records, g.entries, err = p.board.Take()
	return g, err
}

// beginCommit begins to write the group's records. A follower only remembers that they were
// written.
func (k *Keeper) beginCommit(ctx context.Context, p *partition, g *group) {
	if !p.active {
		k.cfg.Store.Follow(p.n, p.fence, g.records)
		g.fence = state.Fence{Position: g.last, Rev: p.fence.Rev}
		close(g.done)
		return
	}
	fence := p.fence
	go func() {
		defer close(g.done)
		g.fence, g.err = k.cfg.Store.Commit(ctx, p.n, fence, g.last, g.records)
	}()
}

// endCommit waits for the group's commit, and lets its changes take effect.
func (k *Keeper) endCommit(p *partition, g *group) error {
	<-g.done
	if g.err != nil {
		return fmt.Errorf("committing partition %d: %w", p.n, g.err)
	}
	p.fence = g.fence
	if p.delivers {
		k.agenda.Apply(p.n, g.moves)
	}
	k.recent.add(g.entries)
	now := k.cfg.Clock.Now()
	p.backlog.committed(now)
	for i := range g.traced {
		g.traced[i].Committed = now
	}
	g.records = nil
	return nil
}
