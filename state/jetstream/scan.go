package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/queue"
)

const (
	// readAhead and readAheadBytes bound one pull request. At most two pulls are in progress, and
	// the client library buffers 64 MiB, so that a slow reader loses nothing.
	readAhead      = 1000
	readAheadBytes = 24 << 20
	// scanIdle is the time after which the server drops the consumer of a scan whose process died.
	scanIdle = time.Minute
	// scanPause is the time that a scan waits for the next message before it looks for the reason.
	// maxPauses bounds how often it then continues without a message.
	scanPause = 2 * time.Second
	maxPauses = 5
	// answerTime is the time that a server has to create a consumer.
	answerTime = 2 * time.Second
)

var errPaused = errors.New("the server paused in the middle of a read")

// A scope is the part of a stream that a scan reads.
type scope struct {
	stream  natsjs.Stream
	filters []string
}

// records returns the scope of record subjects.
func (s *Store) records(filters ...string) scope { return scope{s.st, filters} }

// scan visits every message of the scope, in order, from the first sequence until it has seen one
// at or after the last. It returns how many are left according to the server. That number cannot
// end the scan, because a replica that lags counts wrong. If a message is lost on the way or the
// server pauses, the scan continues after the last message that arrived.
func (s *Store) scan(ctx context.Context, of scope, first, last uint64,
	visit func(natsjs.Msg, uint64)) (left uint64, err error) {
	for pauses := 0; ; {
		from := first
		left, err = s.pass(ctx, of, from, last, func(m natsjs.Msg, seq uint64) {
			visit(m, seq)
			first = seq + 1
		})
		if !errors.Is(err, errPaused) {
			return left, err
		}
		if pauses++; first > from {
			pauses = 0
		}
		if pauses == maxPauses {
			return 0, unavailable("reading", err)
		}
		s.log.WarnContext(ctx, "a read of the state was interrupted, and continues", "sequence", first, "err", err)
		select {
		case <-time.After(retryPause):
		case <-s.closed:
			return 0, queue.ErrClosed
		case <-ctx.Done():
			return 0, unavailable("reading", errors.Join(err, ctx.Err()))
		}
	}
}

// pass is one attempt of a scan.
func (s *Store) pass(ctx context.Context, of scope, first, last uint64,
	visit func(natsjs.Msg, uint64)) (left uint64, err error) {
	// The stream keeps one message per subject, so that every message is the newest.
	cons, err := createConsumer(ctx, of.stream, natsjs.ConsumerConfig{
		AckPolicy:         natsjs.AckNonePolicy,
		DeliverPolicy:     natsjs.DeliverByStartSequencePolicy,
		OptStartSeq:       first,
		FilterSubjects:    of.filters,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: scanIdle,
	})
	if err != nil {
		return 0, unavailable("reading", err)
	}
	defer s.drop(ctx, of.stream, cons.CachedInfo().Name)
	came, ended := make(chan natsjs.Msg, readAhead), make(chan struct{})
	consuming, err := cons.Consume(func(m natsjs.Msg) {
		select {
		case came <- m:
		case <-ended:
		}
	}, natsjs.PullMaxMessagesWithBytesLimit(readAhead, readAheadBytes),
		natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) { s.log.DebugContext(ctx, "reading the state", "err", err) }))
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
			return 0, s.pauseReason(ctx, cons, of, n-1, err)
		}
		md, err := m.Metadata()
		if err != nil {
			return 0, fmt.Errorf("the record %s is corrupt: %w", recordKey(m.Subject()), err)
		}
		if md.Sequence.Consumer != n { // one was lost on the way
			return 0, errPaused
		}
		visit(m, md.Sequence.Stream)
		if md.Sequence.Stream >= last {
			return md.NumPending, nil
		}
	}
}

// createConsumer creates a consumer, see repeat.
func createConsumer(ctx context.Context, on natsjs.Stream, cfg natsjs.ConsumerConfig) (natsjs.Consumer, error) {
	return repeat(ctx, func(ctx context.Context) (natsjs.Consumer, error) { return on.CreateConsumer(ctx, cfg) })
}

// repeat makes a request again if its answer does not come within answerTime, for at most
// opTimeout. A cluster may place a consumer on a server that has just died: only another request
// gets an answer then.
func repeat[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		one, cancel := context.WithTimeout(ctx, answerTime)
		v, err := request(one)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
	}
}

// drop deletes a consumer. One that is not deleted ends after scanIdle.
func (s *Store) drop(ctx context.Context, from natsjs.Stream, name string) {
	ctx, cancel := bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := from.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
		s.log.DebugContext(ctx, "deleting a consumer", "err", err)
	}
}

// await waits at most scanPause for the next message.
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
		return nil, fmt.Errorf("the server sent no record for %s", scanPause)
	case <-s.closed:
		return nil, queue.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pauseReason returns the reason why a pass got no message. If the server has sent messages that
// did not arrive, they are on the way, or lost.
func (s *Store) pauseReason(ctx context.Context, cons natsjs.Consumer, of scope, seen uint64,
	cause error) error {
	asking, cancel := bounded(context.WithoutCancel(ctx))
	defer cancel()
	if info, err := cons.Info(asking); ctx.Err() == nil && (err != nil || info.Delivered.Consumer > seen) {
		return fmt.Errorf("%w: %w", errPaused, cause)
	}
	if of.stream != s.st {
		return fmt.Errorf("%w: %w", errPaused, cause)
	}
	return s.stallReason(ctx, of.filters, cause)
}

// checkComplete returns nil if a scan has seen everything although the server expects more: the
// server skips a damaged record silently.
func (s *Store) checkComplete(ctx context.Context, filters []string, seen uint64) error {
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
	err := s.stallReason(ctx, filters, fmt.Errorf("the server sent %d of %d records", seen, there))
	if errors.Is(err, errPaused) {
		return unavailable("reading", err)
	}
	return err
}

// stallReason returns the reason why a scan did not continue. The server skips a record with a
// wrong checksum silently. Each record is therefore requested by itself, to name the damaged one.
func (s *Store) stallReason(ctx context.Context, filters []string, cause error) error {
	if s.alive(context.WithoutCancel(ctx)) != nil {
		return queue.ErrClosed
	}
	ended := ctx.Err()
	ctx, cancel := bounded(context.WithoutCancel(ctx)) // the scan may have failed at the caller's deadline
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
			// The server also answers "not found" for a record that it counts and cannot read. It
			// does not count a record whose tombstone expired.
			again, infoErr := s.st.Info(ctx, natsjs.WithSubjectFilter(subject))
			if infoErr == nil && len(again.State.Subjects) > 0 {
				return fmt.Errorf("%w: the record %s (stream %s, subject %s) cannot be read, the disk may be "+
					"damaged: %w",
					state.ErrDamaged, recordKey(subject), stateStream, subject, err)
			}
		}
	}
	if ended != nil {
		return unavailable("reading", ended)
	}
	return fmt.Errorf("%w: %w", errPaused, cause)
}
