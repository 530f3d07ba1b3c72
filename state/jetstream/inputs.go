package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"paramedic/state"
	"paramedic/state/jetstream/queue"
)

// A consumer of an ordered read lives on one server. If that server dies, the client library makes
// another one. NATS may place it on the dead server, which it does not know to be dead yet, and the
// library asks for the same name again and again. After consumerTries it takes another name, and
// NATS another server. The library notices after two missing heartbeats.
const (
	consumerTries     = 2
	consumerHeartbeat = 3 * time.Second
)

// Inputs reads the partition's inputs after a position. It acknowledges nothing. Only the position
// of a commit counts.
func (s *Store) Inputs(ctx context.Context, partition int, after uint64) (state.InputReader, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if err := checkPartition(partition); err != nil {
		return nil, err
	}
	asking, cancel := bounded(ctx)
	defer cancel()
	info, err := s.in.Info(asking)
	if err != nil {
		return nil, unavailable("asking the input stream", err)
	}
	if info.State.LastSeq < after {
		return nil, fmt.Errorf("the records need inputs up to %d, but the log (stream %s) ends at %d: it was lost "+
			"or replaced; restore both streams from one backup",
			after, inputStream, info.State.LastSeq)
	}
	cons, err := repeat(asking, func(ctx context.Context) (natsjs.Consumer, error) {
		return s.js.OrderedConsumer(ctx, inputStream, natsjs.OrderedConsumerConfig{
			FilterSubjects: []string{inputSubject(partition)},
			DeliverPolicy:  natsjs.DeliverByStartSequencePolicy,
			OptStartSeq:    after + 1, MaxResetAttempts: consumerTries,
		})
	})
	if err != nil {
		return nil, unavailable("reading the log", err)
	}
	wait, end, err := s.backlog(asking, partition, after)
	if err != nil {
		return nil, err
	}
	newest, err := s.newest(asking, partition)
	if err != nil {
		return nil, err
	}
	r := newReader(s, partition)
	r.last, r.waiting, r.end, r.newest = after, wait, end, newest
	receiving, stop := context.WithCancel(context.Background())
	r.consuming, err = cons.Consume(func(m natsjs.Msg) { r.receive(receiving, m) },
		natsjs.PullMaxMessagesWithBytesLimit(readAhead, readAheadBytes), natsjs.PullHeartbeat(consumerHeartbeat),
		natsjs.ConsumeErrHandler(func(_ natsjs.ConsumeContext, err error) {
			// The consumer resumes where it stopped.
			s.log.DebugContext(ctx, "reading the log", "partition", partition, "err", err)
		}))
	if err != nil {
		stop()
		return nil, unavailable("reading the log", err)
	}
	raise(&s.received, min(newest, after))
	s.readers.Go(func() { // the store's Close also closes open readers
		select {
		case <-s.closed:
			r.Close()
		case <-r.done:
		}
		stop()
		r.consuming.Stop()
		<-r.consuming.Closed()
	})
	return r, nil
}

// backlog returns the number of the partition's inputs after the position, and the sequence at
// which all of them have arrived. That is the sequence of the partition's last input, or of the
// log's if the last input cannot be read. Both are zero if inputs came too fast to count.
func (s *Store) backlog(ctx context.Context, partition int, after uint64) (waiting, end uint64, err error) {
	for range backlogTries {
		before, err := s.in.Info(ctx)
		if err != nil {
			return 0, 0, unavailable("asking the input stream", err)
		}
		cons, err := createConsumer(ctx, s.in, natsjs.ConsumerConfig{AckPolicy: natsjs.AckNonePolicy,
			DeliverPolicy: natsjs.DeliverByStartSequencePolicy,
			OptStartSeq:   after + 1, FilterSubject: inputSubject(partition), MemoryStorage: true, Replicas: 1,
			InactiveThreshold: scanIdle})
		if err != nil {
			return 0, 0, unavailable("reading the log", err)
		}
		counted := cons.CachedInfo()
		s.drop(ctx, s.in, counted.Name)
		last, err := s.newest(ctx, partition)
		if err != nil {
			return 0, 0, err
		}
		now, err := s.in.Info(ctx)
		if err != nil {
			return 0, 0, unavailable("asking the input stream", err)
		}
		switch {
		case now.State.LastSeq != before.State.LastSeq:
		case last > 0:
			return counted.NumPending, last, nil
		default:
			return counted.NumPending, now.State.LastSeq, nil
		}
	}
	return 0, 0, nil
}

// newest returns the sequence of the partition's last input, or 0 if there is none.
func (s *Store) newest(ctx context.Context, partition int) (uint64, error) {
	m, err := s.in.GetLastMsgForSubject(ctx, inputSubject(partition))
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, unavailable("reading the log", err)
	}
	return m.Sequence, nil
}

// bufferBytes bounds the inputs of a partition that have arrived and wait, in bytes of the log. A
// thousand inputs of 100 large alerts would need gigabytes.
const bufferBytes = 16 << 20

// backlogTries bounds how often a backlog is counted again because inputs came during the count.
const backlogTries = 3

// Received reports whether the readers have received every input that is in the log now. It
// compares the newest one: each partition has a consumer of its own, so an older input of another
// partition can still be on its way for a moment.
func (s *Store) Received(ctx context.Context) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.in.Info(ctx)
	if err != nil {
		return false, unavailable("asking the input stream", err)
	}
	return s.received.Load() >= info.State.LastSeq, nil
}

// Lost returns how many accepted inputs were lost before they were applied.
func (s *Store) Lost() uint64 { return s.lost.Load() }

type read struct {
	input  state.Input
	err    error
	size   int64 // bytes in the log, uncompressed
	behind int64 // inputs after this one in the log when it was sent, by the mean size of a message
}

// A reader holds the inputs that have arrived until Next returns them.
type reader struct {
	store     *Store
	partition int
	consuming natsjs.ConsumeContext
	receiving sync.Mutex
	last      uint64       // used by receive only, as are the next fields
	waiting   uint64       // inputs up to end that have not arrived
	end       uint64       // after this sequence nothing is waiting
	newest    uint64       // of the partition when the reader was opened
	each      float64      // inputs in a message
	memory    []byte       // for the next message
	behind    atomic.Int64 // inputs in the log after the last one that arrived
	inputs    chan read
	room      *semaphore.Weighted // bytes that inputs may hold
	done      chan struct{}
	closing   sync.Once
}

func newReader(s *Store, partition int) *reader {
	return &reader{store: s, partition: partition, inputs: make(chan read, readAhead),
		room: semaphore.NewWeighted(bufferBytes), done: make(chan struct{})}
}

// receive blocks if the buffer is full. After a reconnect the client library may call it for the
// next message while the call for the last one still waits.
func (r *reader) receive(ctx context.Context, m natsjs.Msg) {
	r.receiving.Lock()
	defer r.receiving.Unlock()
	md, err := m.Metadata()
	if err != nil {
		r.pass(ctx, read{err: fmt.Errorf("an input has no sequence: %w", err)})
		return
	}
	seq := md.Sequence.Stream
	switch {
	case seq == r.last:
		return // sent again after the consumer resumed
	case seq < r.last:
		r.pass(ctx, read{err: fmt.Errorf("input message %d came after message %d", seq, r.last)})
		return
	}
	r.count(seq)
	r.last = seq
	r.store.sawInput(seq)
	raise(&r.store.received, seq)
	inputs := r.unpack(m.Data(), seq, m.Subject())
	r.sized(len(inputs))
	later := int64(math.Round(float64(md.NumPending) * r.each))
	for i, next := range inputs {
		next.behind = int64(len(inputs)-i-1) + later
		r.pass(ctx, next)
	}
}

// sized updates the mean number of inputs in a message. The last messages count most.
func (r *reader) sized(inputs int) {
	if r.each == 0 {
		r.each = float64(inputs)
	}
	r.each += (float64(inputs) - r.each) / 16
}

// pass gives an input to Next. It waits if the buffer is full, or if its inputs are too large.
func (r *reader) pass(ctx context.Context, next read) {
	next.size = min(next.size, bufferBytes)
	if r.room.Acquire(ctx, next.size) != nil {
		return // closed
	}
	select {
	case r.inputs <- next:
		r.behind.Store(next.behind)
	case <-r.done:
	}
}

// count detects inputs that the server skips because it cannot read them.
func (r *reader) count(seq uint64) {
	if seq <= r.end && r.waiting > 0 {
		r.waiting--
	}
	if seq >= r.end && r.waiting > 0 {
		r.store.lost.Add(r.waiting)
		r.store.log.Error("accepted inputs cannot be read, the disk may be damaged: Paramedic skips them",
			"stream", inputStream, "partition", r.partition, "inputs", r.waiting, "before", seq)
		r.waiting = 0
	}
}

// Next blocks until the next input, until the context ends, or until the reader or the store is
// closed.
func (r *reader) Next(ctx context.Context) (state.Input, error) {
	select { // closed has priority over buffered inputs
	case <-r.done:
		return state.Input{}, r.closedError()
	default:
	}
	select {
	case next := <-r.inputs:
		r.room.Release(next.size)
		return next.input, next.err
	case <-ctx.Done():
		return state.Input{}, ctx.Err()
	case <-r.done:
		return state.Input{}, r.closedError()
	}
}

func (r *reader) closedError() error {
	select {
	case <-r.store.closed:
		return queue.ErrClosed
	default:
		return errors.New("the reader is closed")
	}
}

// Buffered returns the number of inputs that have arrived and that Next has not returned.
func (r *reader) Buffered() int { return len(r.inputs) }

// Waiting returns the number of inputs that Next has not returned, including those in the log after
// the last one that arrived.
func (r *reader) Waiting() int { return len(r.inputs) + int(r.behind.Load()) }

// End returns the sequence of the partition's last input when the reader was opened, or 0.
func (r *reader) End() uint64 { return r.newest }

// Close closes the reader. It may be called more than once.
func (r *reader) Close() { r.closing.Do(func() { close(r.done) }) }
