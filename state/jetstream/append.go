package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"paramedic/state"
)

const (
	// joinFrom is the number of waiting messages from which one atomic batch is cheaper than a
	// synced write for each: setting a batch up costs the server about as much as this many synced
	// writes. BenchmarkAppend shows it.
	joinFrom = 8
	// writeTimeout is how long a write may hold up those behind it. A server without a leader says
	// nothing.
	writeTimeout = 5 * time.Second
	// maxJoin bounds what one batch holds in memory at the server.
	maxJoin = 32 << 20
	// maxQueue bounds what waits to be written. Beyond it Append refuses, and the sender keeps what
	// it has.
	maxQueue = 128 << 20
)

// Append makes the inputs durable, all or none. Calls that come while a write is under way share
// the next one. When the context ends before the answer, the inputs may have been kept all the
// same: sending them again does no harm.
func (s *Store) Append(ctx context.Context, inputs ...state.Input) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if len(inputs) == 0 {
		return nil
	}
	if len(inputs) > maxBatch {
		return fmt.Errorf("appending %d inputs at once: %d is the most", len(inputs), maxBatch)
	}
	msgs, err := s.encode(inputs)
	if err != nil {
		return err
	}
	w := &write{msgs: msgs, done: make(chan error, 1)}
	for _, m := range msgs {
		w.bytes += size(m)
	}
	if err := s.queue.put(w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		if w.taken.CompareAndSwap(false, true) { // still waiting: it will not be written
			return unavailable("waiting for the log", ctx.Err())
		}
		return unavailable("waiting for the log's answer (the inputs may have been kept)", ctx.Err())
	}
}

func (s *Store) encode(inputs []state.Input) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, len(inputs))
	most := min(s.nc.MaxPayload(), MaxValue)
	for i := range inputs {
		data, err := json.Marshal(&inputs[i])
		if err != nil {
			return nil, fmt.Errorf("encoding input %q: %w", inputs[i].ID, err)
		}
		if int64(len(data)) > most {
			return nil, fmt.Errorf("input %q has %d bytes, more than the log takes (%d): split it, or raise the NATS server's max_payload",
				inputs[i].ID, len(data), most)
		}
		msgs[i] = nats.NewMsg(inputSubject(s.Partition(inputs[i].Cluster)))
		msgs[i].Data = data
	}
	return msgs, nil
}

// A write is one Append that waits.
type write struct {
	msgs  []*nats.Msg
	bytes int
	taken atomic.Bool // by the flusher, or by the caller that gave up
	done  chan error  // takes one answer
}

// A queue holds the writes that wait for the flusher.
type queue struct {
	mu     sync.Mutex
	writes []*write
	bytes  int
	closed bool
	wake   chan struct{} // takes one; closed with the queue
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(w *write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	if q.bytes+w.bytes > maxQueue {
		return fmt.Errorf("%w: %d MB already wait to be written", state.ErrUnavailable, q.bytes>>20)
	}
	q.writes = append(q.writes, w)
	q.bytes += w.bytes
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns the next writes that fit one batch, in order; none when nothing waits. A write
// larger than a batch's bound goes alone.
func (q *queue) take() (group []*write, messages int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes, n := 0, 0
	for _, w := range q.writes {
		if len(group) > 0 && (messages+len(w.msgs) > maxBatch || bytes+w.bytes > maxJoin) {
			break
		}
		n++
		q.bytes -= w.bytes
		if !w.taken.CompareAndSwap(false, true) {
			continue
		}
		group = append(group, w)
		messages += len(w.msgs)
		bytes += w.bytes
	}
	clear(q.writes[:n])
	q.writes = q.writes[n:]
	return group, messages
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.wake)
	}
}

// flush writes what waits until the queue is closed and empty. One write is under way at a time,
// which is what lets others gather behind it: the server syncs each message of its own, and a batch
// once.
func (s *Store) flush() {
	for open := true; open; {
		_, open = <-s.queue.wake
		for {
			group, messages := s.queue.take()
			if len(group) == 0 {
				break
			}
			if messages == len(group) && messages < joinFrom {
				s.writeEach(group)
			} else {
				s.writeJoined(group, messages)
			}
		}
	}
}

// writeJoined writes the group as one batch: they fail together.
func (s *Store) writeJoined(group []*write, messages int) {
	msgs := make([]*nats.Msg, 0, messages)
	for _, w := range group {
		msgs = append(msgs, w.msgs...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := s.write(ctx, msgs)
	for _, w := range group {
		w.done <- err
	}
}

// write publishes inputs and notes how far the log goes.
func (s *Store) write(ctx context.Context, msgs []*nats.Msg) error {
	seq, err := s.publish(ctx, msgs)
	if err == nil {
		s.sawInput(seq)
	}
	return err
}

func (s *Store) sawInput(seq uint64) {
	for old := s.logged.Load(); seq > old && !s.logged.CompareAndSwap(old, seq); {
		old = s.logged.Load()
	}
}

// writeEach writes a few single inputs side by side.
func (s *Store) writeEach(group []*write) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range group[1:] {
		wg.Go(func() {
			w.done <- s.write(ctx, w.msgs)
		})
	}
	group[0].done <- s.write(ctx, group[0].msgs)
	wg.Wait()
}
