package keeper

import (
	"context"
	"sync"
	"time"

	"paramedic/state"
)

// copyEvery is the time between two checks whether a follower's copy has every input.
const copyEvery = time.Second

// A role holds what this process does, and since when.
type role struct {
	mu     sync.Mutex
	active bool
	since  time.Time
	asOf   time.Time // the last check that found the copy complete; zero: none did
}

// Replica returns what this process does, and how old its copy is.
func (k *Keeper) Replica() state.Replica {
	k.role.mu.Lock()
	defer k.role.mu.Unlock()
	r := state.Replica{Active: k.role.active, Since: k.role.since}
	if r.Active {
		return r
	}
	r.AsOf = k.role.asOf
	for _, lag := range k.Lag() {
		r.Inputs += lag.Inputs
	}
	return r
}

// TookOver returns when this process went on in place of another one. It is zero if it does not
// deliver, or if no other process works on the store.
func (k *Keeper) TookOver() time.Time {
	if k.alone() {
		return time.Time{}
	}
	k.role.mu.Lock()
	defer k.role.mu.Unlock()
	if !k.role.active {
		return time.Time{}
	}
	return k.role.since
}

// watchRole follows the lease, and checks the copy of a follower, until the context ends.
func (k *Keeper) watchRole(ctx context.Context) {
	for {
		active, changed := k.takeRole()
		if changed == nil {
			return
		}
		if !active {
			k.checkCopy(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-k.cfg.Clock.After(copyEvery):
		}
	}
}

// takeRole records a change of the lease, and returns what lease does.
func (k *Keeper) takeRole() (active bool, changed <-chan struct{}) {
	k.role.mu.Lock()
	defer k.role.mu.Unlock()
	active, changed = k.lease()
	if k.role.since.IsZero() || active != k.role.active {
		k.role.active, k.role.since, k.role.asOf = active, k.cfg.Clock.Now(), time.Time{}
	}
	return active, changed
}

// checkCopy records the time if every input of the log is applied.
func (k *Keeper) checkCopy(ctx context.Context) {
	now := k.cfg.Clock.Now()
	received, err := k.cfg.Store.Received(ctx)
	if err != nil {
		k.cfg.Logger.DebugContext(ctx, "the age of the copy is not known", "err", err)
		return
	}
	if !received {
		return
	}
	for _, p := range k.parts {
		p.mu.RLock()
		ready := p.ready
		p.mu.RUnlock()
		if !ready || p.backlog.lag(p.n, now).Inputs > 0 {
			return
		}
	}
	k.role.mu.Lock()
	defer k.role.mu.Unlock()
	k.role.asOf = now
}
