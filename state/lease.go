package state

import (
	"context"
	"errors"
)

// A Lease is held by one of the processes on a store: the active one. Only it commits and delivers.
// The others follow the log. Implementations are safe for concurrent use.
type Lease interface {
	// Held reports whether this process is the active one now. It MUST be asked right before an
	// effect, because a process can be stopped at any line for any time.
	Held() bool
	// Changed returns a channel that is closed at the next change of Held. It is nil if Held is
	// always true.
	Changed() <-chan struct{}
}

// ErrNotHeld means that another process delivers now.
var ErrNotHeld = errors.New("another Paramedic has taken over")

type (
	leaseKey   struct{}
	leavingKey struct{}
)

// WithLeaving returns a context for work that must begin no call after it has waited, once the
// channel is closed.
func WithLeaving(ctx context.Context, leaving <-chan struct{}) context.Context {
	return context.WithValue(ctx, leavingKey{}, leaving)
}

// Leaving returns a channel that is closed when this process hands its work to another one.
// Adapters that wait before a call then return ErrNotHeld. It is nil for work that is not handed
// over.
func Leaving(ctx context.Context) <-chan struct{} {
	leaving, _ := ctx.Value(leavingKey{}).(<-chan struct{})
	return leaving
}

// WithLease returns a context for work that only the holder of a lease may do.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// StillHeld returns ErrNotHeld if the work of a context needs a lease that this process does not
// hold any more. Adapters call it right before a call that others can see.
func StillHeld(ctx context.Context) error {
	if l, ok := ctx.Value(leaseKey{}).(Lease); ok && !l.Held() {
		return ErrNotHeld
	}
	return nil
}
