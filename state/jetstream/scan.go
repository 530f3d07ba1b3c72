package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

const (
	// readAhead and readAheadBytes bound what one pull asks for. Two pulls are under way at most, and the client library holds 64 MiB of
	// what came: while a reader is slow nothing is dropped.
	readAhead      = 1000
	readAheadBytes = 24 << 20
	// scanIdle is how soon the server drops the consumer of a scan whose process died.
	scanIdle = time.Minute
	// scanPause is how long a scan waits for its next message before it looks for the reason; mostPauses is how often it then goes on
	// without having got any.
	scanPause  = 2 * time.Second
	mostPauses = 5
)

var errPaused = errors.New("the server paused in the middle of a read")

// scan visits every message that the filters match, in the order of their sequences, from the first sequence until it has seen one at
// or after the last, and returns how many the server thinks are left. That cannot end it: a replica that is behind counts wrong. Where
// a message is lost on its way, or the server pauses, it goes on behind the last one that came.
func (s *Store) scan(ctx context.Context, filters []string, first, last uint64, visit func(natsjs.Msg, uint64)) (left uint64, err error) {
	for pauses := 0; ; {
		from := first
		left, err = s.pass(ctx, filters, from, last, func(m natsjs.Msg, seq uint64) {
			visit(m, seq)
			first = seq + 1
		})
		if !errors.Is(err, errPaused) {
			return left, err
		}
		if pauses++; first > from {
			pauses = 0
		}
		if pauses == mostPauses {
			return 0, unavailable("reading", err)
		}
		s.log.Warn("a read of the state was interrupted, going on", "sequence", first, "err", err)
		select {
		case <-time.After(again):
		case <-s.closed:
			return 0, errClosed
		case <-ctx.Done():
			return 0, unavailable("reading", errors.Join(err, ctx.Err()))
		}
	}
}

// pass is one try of a scan.
func (s *Store) pass(ctx context.Context, filters []string, first, last uint64, visit func(natsjs.Msg, uint64)) (left uint64, err error) {
	asking, cancel := bounded(ctx)
	defer cancel()
	// The stream keeps one message of a subject, so that every message is the newest one.
	cons, err := s.st.CreateConsumer(asking, natsjs.ConsumerConfig{
		AckPolicy:         natsjs.AckNonePolicy,
		DeliverPolicy:     natsjs.DeliverByStartSequencePolicy,
		OptStartSeq:       first,
		FilterSubjects:    filters,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: scanIdle,
	})
	if err != nil {
		return 0, unavailable("reading", err)
	}
	defer s.drop(ctx, s.st, cons.CachedInfo().Name)
	came, ended := make(chan natsjs.Msg, readAhead), make(chan struct{})
	consuming, err := cons.Consume(func(m natsjs.Msg) {
		select {
		case came <- m:
		case <-ended:
		}
	}, natsjs.PullMaxMessagesWithBytesLimit(readAhead, readAheadBytes),
		natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) { s.log.Debug("reading the state", "err", err) }))
	if err != nil {
		return 0, unavailable("reading", err)
	}
	defer func() {
		close(ended)
		consuming.Stop()
		<-consuming.Closed()
	}()
	idle := time.NewTimer(scanPause)
	defer idle.Stop()
	for n := uint64(1); ; n++ {
		m, err := s.await(ctx, came, idle)
		if err != nil {
			return 0, s.paused(ctx, cons, filters, n-1, err)
		}
		md, err := m.Metadata()
		if err != nil {
			return 0, fmt.Errorf("the record %s is corrupt: %w", recordKey(m.Subject()), err)
		}
		if md.Sequence.Consumer != n { // one was lost on its way
			return 0, errPaused
		}
		visit(m, md.Sequence.Stream)
		if md.Sequence.Stream >= last {
			return md.NumPending, nil
		}
	}
}

// drop deletes a consumer. What is not deleted here goes after scanIdle.
func (s *Store) drop(ctx context.Context, from natsjs.Stream, name string) {
	ctx, cancel := bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := from.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
		s.log.Debug("deleting a consumer", "err", err)
	}
}

// await waits for the next message for as long as a scan may pause.
func (s *Store) await(ctx context.Context, came <-chan natsjs.Msg, idle *time.Timer) (natsjs.Msg, error) {
	select {
	case m := <-came:
		return m, nil
	default:
	}
	idle.Reset(scanPause)
	select {
	case m := <-came:
		return m, nil
	case <-idle.C:
		return nil, fmt.Errorf("nothing came for %s", scanPause)
	case <-s.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// paused says why a pass got nothing for a while. What the server has sent and did not come is on its way, or lost.
func (s *Store) paused(ctx context.Context, cons natsjs.Consumer, filters []string, seen uint64, cause error) error {
	asking, cancel := bounded(context.WithoutCancel(ctx))
	defer cancel()
	if info, err := cons.Info(asking); ctx.Err() == nil && (err != nil || info.Delivered.Consumer > seen) {
		return fmt.Errorf("%w: %w", errPaused, cause)
	}
	return s.stalled(ctx, filters, cause)
}

// complete looks whether a scan that the server thinks is not over has seen everything: it leaves a damaged record out without a word.
func (s *Store) complete(ctx context.Context, filters []string, seen uint64) error {
	asking, cancel := bounded(ctx)
	defer cancel()
	there := uint64(0)
	for _, filter := range filters {
		info, err := s.st.Info(asking, natsjs.WithSubjectFilter(filter))
		if err != nil {
			return unavailable("reading", err)
		}
		there += uint64(len(info.State.Subjects))
	}
	if seen >= there {
		return nil
	}
	err := s.stalled(ctx, filters, fmt.Errorf("%d of %d records came", seen, there))
	if errors.Is(err, errPaused) {
		return unavailable("reading", err)
	}
	return err
}

// stalled says why a scan did not go on. The server reads over a record whose checksum is wrong without an answer, so each record is
// asked for by itself: a damaged one is named.
func (s *Store) stalled(ctx context.Context, filters []string, cause error) error {
	if s.alive(context.WithoutCancel(ctx)) != nil {
		return errClosed
	}
	ended := ctx.Err()
	ctx, cancel := bounded(context.WithoutCancel(ctx)) // it may be the caller's deadline that ended the scan
	defer cancel()
	for _, filter := range filters {
		info, err := s.st.Info(ctx, natsjs.WithSubjectFilter(filter))
		if err != nil {
			return unavailable("reading", cause)
		}
		for subject := range info.State.Subjects {
			_, err := s.st.GetLastMsgForSubject(ctx, subject)
			var api *natsjs.APIError
			if !errors.As(err, &api) {
				continue
			}
			// The server also says "not found" of a record that it counts and cannot read; one whose tombstone went is not counted.
			again, infoErr := s.st.Info(ctx, natsjs.WithSubjectFilter(subject))
			if infoErr == nil && len(again.State.Subjects) > 0 {
				return fmt.Errorf("%w: the record %s (stream %s, subject %s) cannot be read, the disk may be damaged: %w",
					state.ErrDamaged, recordKey(subject), stateStream, subject, err)
			}
		}
	}
	if ended != nil {
		return unavailable("reading", ended)
	}
	return fmt.Errorf("%w: %w", errPaused, cause)
}
