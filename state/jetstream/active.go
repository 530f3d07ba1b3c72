package jetstream

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state/jetstream/lease"
)

// newLease returns the lease of the processes on the store.
func (s *Store) newLease() *lease.Lease {
	return lease.New(lease.Config{Stream: s.st, Write: s.writeLease, Watch: s.watchLease, Logger: s.log})
}

func (s *Store) writeLease(ctx context.Context, subject string, revision uint64, data []byte) (uint64, error) {
	m := nats.NewMsg(subject)
	m.Data = data
	m.Header.Set(expectLastHeader, strconv.FormatUint(revision, 10))
	return s.send(ctx, []*nats.Msg{m})
}

func (s *Store) watchLease(ctx context.Context, subject string, visit func(natsjs.Msg)) (natsjs.ConsumeContext, error) {
	cons, err := s.js.OrderedConsumer(ctx, stateStream, natsjs.OrderedConsumerConfig{FilterSubjects: []string{subject},
		DeliverPolicy: natsjs.DeliverNewPolicy, MaxResetAttempts: consumerTries})
	if err != nil {
		return nil, err
	}
	return cons.Consume(visit, natsjs.PullHeartbeat(consumerHeartbeat),
		natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) { s.log.DebugContext(ctx, "watching the lease", "err", err) }))
}

// Held reports whether this process is the one that commits and delivers. That of an embedded store
// always is.
func (s *Store) Held() bool { return s.lease == nil || s.lease.Held() }

// Changed returns a channel that is closed when Held changes. It is nil for an embedded store.
func (s *Store) Changed() <-chan struct{} {
	if s.lease == nil {
		return nil
	}
	return s.lease.Changed()
}

// Resign releases the lease for good, so that another process takes it over at once. It returns
// when the release is written, or when the context ends. The store still takes inputs.
func (s *Store) Resign(ctx context.Context) {
	if s.lease != nil {
		s.lease.Resign(ctx)
	}
}
