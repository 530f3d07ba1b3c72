package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"crypto/rand"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

const (
	leaseSubject = "paramedic.lease.active"
	// leaseTime is the time for which a written lease is held. Another process takes it over if it
	// has seen no renewal for takeoverTime.
	leaseTime    = 5 * time.Second
	takeoverTime = 6 * time.Second
	leaseRenew   = 2 * time.Second
	// leaseLook is the time between two looks of a process without the lease.
	leaseLook = 500 * time.Millisecond
)

// A lease is held by one of the processes on an external store: the active one. It is a record
// that its holder renews by compare-and-set. No two clocks are compared. The holder counts from
// before it writes a renewal, another process from after it has read one, so the holder gives up
// first. Clocks that stand still, as in a suspended machine, break this; the position's fence then
// still refuses the commits of the old holder.
type lease struct {
	s  *Store
	me string

	// Used by run's own goroutine only.
	revision uint64 // of the record that this process wrote last; 0: it does not hold the lease
	seen     uint64 // revision of another's record
	seenAt   time.Time

	released  chan struct{} // receives a value when another process has released the lease
	resigned  chan struct{} // closed when this process gives it up for good
	resigning sync.Once
	over      chan struct{} // closed when run has returned

	mu      sync.Mutex
	until   time.Time // with the monotonic clock, which goes on in a stopped process
	was     bool
	changed chan struct{}
}

// A holder is the stored form of the lease.
type holder struct {
	Process string `json:"process"` // empty: it was released
}

func newLease(s *Store) *lease {
	return &lease{s: s, me: rand.Text(), changed: make(chan struct{}), released: make(chan struct{}, 1),
		resigned: make(chan struct{}), over: make(chan struct{})}
}

// Held reports whether this process is the one that commits and delivers. That of an embedded store
// always is.
func (s *Store) Held() bool { return s.lease == nil || s.lease.held() }

// Changed returns a channel that is closed when Held changes. It is nil for an embedded store.
func (s *Store) Changed() <-chan struct{} {
	if s.lease == nil {
		return nil
	}
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	return s.lease.changed
}

func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// Resign releases the lease for good, so that another process takes it over at once. It returns
// when the release is written, or when the context ends. The store still takes inputs.
func (s *Store) Resign(ctx context.Context) {
	if s.lease == nil {
		return
	}
	s.lease.resigning.Do(func() { close(s.lease.resigned) })
	select {
	case <-s.lease.over:
	case <-ctx.Done():
	}
}

// run takes and renews the lease until this process resigns or the store closes, and then releases
// it.
func (l *lease) run() {
	defer close(l.over)
	go l.watch()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), leaseRenew)
		if err := l.step(ctx); err != nil && !errors.Is(err, state.ErrFenced) {
			l.s.log.WarnContext(ctx, "the lease of the active bot cannot be read or renewed", "err", err)
		}
		cancel()
		wait := leaseLook
		if l.revision > 0 {
			wait = leaseRenew
		}
		l.announce()
		select {
		case <-l.s.closed:
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

// watch reports releases of the lease by other processes, until run has returned.
func (l *lease) watch() {
	for {
		watching, err := l.consume()
		if err == nil {
			<-l.over
			watching.Stop()
			return
		}
		l.s.log.Debug("the lease cannot be watched", "err", err)
		select {
		case <-l.over:
			return
		case <-time.After(leaseRenew):
		}
	}
}

// consume calls back for each record of the lease that is written from now on.
func (l *lease) consume() (natsjs.ConsumeContext, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseRenew)
	defer cancel()
	cons, err := l.s.js.OrderedConsumer(ctx, stateStream, natsjs.OrderedConsumerConfig{FilterSubjects: []string{leaseSubject},
		DeliverPolicy: natsjs.DeliverNewPolicy, MaxResetAttempts: consumerTries})
	if err != nil {
		return nil, err
	}
	return cons.Consume(func(m natsjs.Msg) {
		var by holder
		if json.Unmarshal(m.Data(), &by) == nil && by.Process == "" {
			select {
			case l.released <- struct{}{}:
			default:
			}
		}
	}, natsjs.PullHeartbeat(consumerHeartbeat), natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) {
		l.s.log.Debug("watching the lease", "err", err)
	}))
}

// step renews the lease, or takes it if it is free.
func (l *lease) step(ctx context.Context) error {
	if l.revision > 0 {
		err := l.write(ctx, l.revision, l.me)
		if err != nil {
			l.revision = 0 // the answer may be lost: the next step reads who holds it
		}
		return err
	}
	m, err := l.s.st.GetLastMsgForSubject(ctx, leaseSubject)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return l.write(ctx, 0, l.me)
	}
	if err != nil {
		return unavailable("reading the lease", err)
	}
	var by holder
	if err := json.Unmarshal(m.Data, &by); err != nil {
		return fmt.Errorf("the lease is corrupt (stream %s, sequence %d): %w", stateStream, m.Sequence, err)
	}
	if by.Process != l.me {
		l.lose() // also if another process held it in between, and has released it
	}
	switch now := time.Now(); {
	case by.Process == l.me || by.Process == "":
		return l.write(ctx, m.Sequence, l.me)
	case m.Sequence != l.seen:
		l.seen, l.seenAt = m.Sequence, now
	case now.Sub(l.seenAt) >= takeoverTime:
		return l.write(ctx, m.Sequence, l.me)
	}
	return nil
}

// write stores the holder if the record still has a revision.
func (l *lease) write(ctx context.Context, revision uint64, process string) error {
	data, err := json.Marshal(holder{process})
	if err != nil {
		return fmt.Errorf("encoding the lease: %w", err)
	}
	m := nats.NewMsg(leaseSubject)
	m.Data = data
	m.Header.Set(expectLastHeader, strconv.FormatUint(revision, 10))
	began := time.Now()
	rev, err := l.s.send(ctx, []*nats.Msg{m})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if process == l.me {
		l.revision, l.until = rev, began.Add(leaseTime)
	}
	return nil
}

// announce closes the channel of Changed if the answer of Held has changed.
func (l *lease) announce() {
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
func (l *lease) lose() {
	l.mu.Lock()
	l.until = time.Time{}
	l.mu.Unlock()
	l.announce()
}

// release gives the lease up, so that another process takes it at once.
func (l *lease) release() {
	l.lose()
	if l.revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseRenew)
	defer cancel()
	if err := l.write(ctx, l.revision, ""); err != nil {
		l.s.log.WarnContext(ctx, "the lease could not be released, another bot takes it over in some seconds", "err", err)
	}
}
