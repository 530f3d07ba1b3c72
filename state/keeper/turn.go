package keeper

import (
	"context"
	"errors"
	"time"

	"paramedic/state"
	"paramedic/state/keeper/agenda"
)

// errTurn ends the following of a partition because this process got or lost the lease.
var errTurn = errors.New("the lease has changed")

// catchUpPause is how long a process that becomes active waits for an input that should be in the
// log. If none comes, the disk may have lost it.
const catchUpPause = 5 * time.Second

// lease returns whether this process commits and delivers, and a channel that is closed when that
// changes. The channel is nil if no other process works on the store.
func (k *Keeper) lease() (active bool, changed <-chan struct{}) {
	if k.cfg.Lease == nil {
		return true, nil
	}
	changed = k.cfg.Lease.Changed() // before Held, so that no change is missed
	return k.cfg.Lease.Held(), changed
}

// alone reports whether no other process works on the store.
func (k *Keeper) alone() bool {
	_, changed := k.lease()
	return changed == nil
}

// turn returns whether this process is active, and a context that ends with errTurn as its cause
// when that changes.
func (k *Keeper) turn(ctx context.Context) (active bool, during context.Context, stop func()) {
	active, changed := k.takeRole() // before any delivery
	during, cancel := context.WithCancelCause(ctx)
	if changed != nil {
		go func() {
			select {
			case <-changed:
				cancel(errTurn)
			case <-during.Done():
			}
		}()
	}
	return active, during, func() { cancel(nil) }
}

// catchUp applies the inputs that wait in the log. They may hold outcomes of deliveries by the
// process that was active before, also if the newest records were lost.
func (k *Keeper) catchUp(ctx context.Context, p *partition, reader state.InputReader) error {
	for p.fence.Position < reader.End() {
		waiting, cancel := context.WithTimeout(ctx, catchUpPause)
		in, err := k.next(waiting, p, reader)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := k.apply(ctx, p, reader, in); err != nil {
			return err
		}
	}
	return nil
}

// begin hands the partition's effects to the outbox from now on. What is wanted by now may have
// been delivered by another process, also if that has the later clock.
func (k *Keeper) begin(p *partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !k.alone() {
		p.since = k.cfg.Clock.Now()
		for e := range p.board.EveryEffect() {
			if e.Since.After(p.since) {
				p.since = e.Since
			}
		}
	}
	k.agenda.Load(p.n, agenda.All(p.board))
	p.delivers = true
}

// Since returns when this process took over the effects of a cluster from another process. It is
// zero if there was none.
func (k *Keeper) Since(cluster string) time.Time {
	p := k.parts[k.cfg.Store.Partition(cluster)]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.since
}
