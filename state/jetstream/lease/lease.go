// Package lease elects the active one of the processes on an external store.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

const (
	subject = "paramedic.lease.active"
	// heldFor is the time for which a written lease is held. Another process takes it over if it
	// has seen no renewal for takeover.
	heldFor  = 5 * time.Second
	takeover = 6 * time.Second
	// renew is the time between two renewals by the holder. A request takes at most as long.
	renew = 2 * time.Second
	// look is the time between two looks of a process without the lease.
	look = 500 * time.Millisecond
)

// Config gives a lease access to its store.
type Config struct {
	Stream natsjs.Stream // holds the lease
	// Write publishes a record of a subject whose last revision is known, and returns the new one.
	// It returns state.ErrFenced if the record has another revision.
	Write func(ctx context.Context, subject string, revision uint64, data []byte) (uint64, error)
	// Watch calls back for each message of a subject that is written from now on.
	Watch  func(ctx context.Context, subject string, visit func(natsjs.Msg)) (natsjs.ConsumeContext, error)
	Logger *slog.Logger
}

// A Lease is held by one of the processes on an external store: the active one. It is a record
// that its holder renews by compare-and-set. No two clocks are compared. The holder counts from
// before it writes a renewal, another process from after it has read one, so the holder gives up
// first. Clocks that stand still, as in a suspended machine, break this; the position's fence then
// still refuses the commits of the old holder.
type Lease struct {
	cfg Config
	me  string

	// Used by Run's own goroutine only.
	revision uint64 // of the record that this process wrote last; 0: it does not hold the lease
	seen     uint64 // revision of another's record
	seenAt   time.Time

	released  chan struct{} // receives a value when another process has released the lease
	resigned  chan struct{} // closed when this process gives it up for good
	resigning sync.Once
	over      chan struct{} // closed when Run has returned

	mu      sync.Mutex
	until   time.Time // with the monotonic clock, which goes on in a stopped process
	was     bool
	changed chan struct{}
}

// A holder is the stored form of the lease.
type holder struct {
	Process string `json:"process"` // empty: it was released
}

// New returns a lease. It is not held before Run.
func New(cfg Config) *Lease {
	return &Lease{cfg: cfg, me: rand.Text(), changed: make(chan struct{}), released: make(chan struct{}, 1),
		resigned: make(chan struct{}), over: make(chan struct{})}
}

// Changed returns a channel that is closed when Held changes.
func (l *Lease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Held reports whether this process is the active one.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// Resign releases the lease for good, so that another process takes it over at once. It returns
// when the release is written, or when the context ends.
func (l *Lease) Resign(ctx context.Context) {
	l.resigning.Do(func() { close(l.resigned) })
	select {
	case <-l.over:
	case <-ctx.Done():
	}
}

// Run takes and renews the lease until this process resigns or the channel is closed, and then
// releases it.
func (l *Lease) Run(closed <-chan struct{}) {
	defer close(l.over)
	go l.watch()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), renew)
		if err := l.step(ctx); err != nil && !errors.Is(err, state.ErrFenced) {
			l.cfg.Logger.WarnContext(ctx, "the lease of the active bot cannot be read or renewed", "err", err)
		}
		cancel()
		wait := look
		if l.revision > 0 {
			wait = renew
		}
		l.announce()
		select {
		case <-closed:
			l.release()
			return
		case <-l.resigned:
			l.release()
			return
		case <-l.released:
		case <-time.After(wait):
		}
	}
}

// watch reports releases of the lease by other processes, until Run has returned.
func (l *Lease) watch() {
	for {
		watching, err := l.consume()
		if err == nil {
			<-l.over
			watching.Stop()
			return
		}
		l.cfg.Logger.Debug("the lease cannot be watched", "err", err)
		select {
		case <-l.over:
			return
		case <-time.After(renew):
		}
	}
}

// consume calls back for each record of the lease that is written from now on.
func (l *Lease) consume() (natsjs.ConsumeContext, error) {
	ctx, cancel := context.WithTimeout(context.Background(), renew)
	defer cancel()
	return l.cfg.Watch(ctx, subject, func(m natsjs.Msg) {
		var by holder
		if json.Unmarshal(m.Data(), &by) == nil && by.Process == "" {
			select {
			case l.released <- struct{}{}:
			default:
			}
		}
	})
}

// step renews the lease, or takes it if it is free.
func (l *Lease) step(ctx context.Context) error {
	if l.revision > 0 {
		err := l.write(ctx, l.revision, l.me)
		if err != nil {
			l.revision = 0 // the answer may be lost: the next step reads who holds it
		}
		return err
	}
	m, err := l.cfg.Stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return l.write(ctx, 0, l.me)
	}
	if err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	var by holder
	if err := json.Unmarshal(m.Data, &by); err != nil {
		return fmt.Errorf("the lease is corrupt (stream %s, sequence %d): %w", l.cfg.Stream.CachedInfo().Config.Name, m.Sequence, err)
	}
	if by.Process != l.me {
		l.lose() // also if another process held it in between, and has released it
	}
	switch now := time.Now(); {
	case by.Process == l.me || by.Process == "":
		return l.write(ctx, m.Sequence, l.me)
	case m.Sequence != l.seen:
		l.seen, l.seenAt = m.Sequence, now
	case now.Sub(l.seenAt) >= takeover:
		return l.write(ctx, m.Sequence, l.me)
	}
	return nil
}

// write stores the holder if the record still has a revision.
func (l *Lease) write(ctx context.Context, revision uint64, process string) error {
	data, err := json.Marshal(holder{process})
	if err != nil {
		return fmt.Errorf("encoding the lease: %w", err)
	}
	began := time.Now()
	rev, err := l.cfg.Write(ctx, subject, revision, data)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if process == l.me {
		l.revision, l.until = rev, began.Add(heldFor)
	}
	return nil
}

// announce closes the channel of Changed if the answer of Held has changed.
func (l *Lease) announce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().Before(l.until)
	if now == l.was {
		return
	}
	l.was = now
	close(l.changed)
	l.changed = make(chan struct{})
}

// lose ends the time of the lease, and announces that.
func (l *Lease) lose() {
	l.mu.Lock()
	l.until = time.Time{}
	l.mu.Unlock()
	l.announce()
}

// release gives the lease up, so that another process takes it at once.
func (l *Lease) release() {
	l.lose()
	if l.revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renew)
	defer cancel()
	if err := l.write(ctx, l.revision, ""); err != nil {
		l.cfg.Logger.WarnContext(ctx, "the lease could not be released, another bot takes it over in some seconds", "err", err)
	}
}
