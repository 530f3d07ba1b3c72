package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"paramedic/state"
)

const (
	// joinFrom is the number of waiting messages at which one atomic batch becomes cheaper than a
	// synced write for each. The setup of a batch costs the server about this many synced writes.
	// BenchmarkAppend shows it.
	joinFrom = 8
	// writeTimeout is the time that a write may delay those behind it. A server without a leader
	// does not answer.
	writeTimeout = 5 * time.Second
	// maxJoin bounds the bytes of a batch, which the server holds in memory.
	maxJoin = 32 << 20
	// maxQueue bounds the waiting writes. Beyond it Append fails, and the sender keeps its inputs.
	maxQueue = 128 << 20
)

// Append makes the inputs durable, all or none. Calls during a write share the next one. If the
// context ends before the answer, the inputs may have been stored all the same. It does no harm to
// send them again.
func (s *Store) Append(ctx context.Context, inputs ...state.Input) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if len(inputs) == 0 {
		return nil
	}
	if len(inputs) > maxBatch {
		return fmt.Errorf("appending %d inputs at once: the limit is %d", len(inputs), maxBatch)
	}
	encoded, err := s.encode(inputs)
	if err != nil {
		return err
	}
	w := &write{inputs: encoded, done: make(chan error, 1)}
	for _, e := range encoded {
		w.bytes += len(e.data) + messageRoom
	}
	if err := s.queue.put(w); err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		if w.taken.CompareAndSwap(false, true) { // it still waits, and will not be written
			return unavailable("waiting for the log", ctx.Err())
		}
		return unavailable("waiting for the log's answer (the log may have the inputs)", ctx.Err())
	}
}

func (s *Store) encode(inputs []state.Input) ([]encoded, error) {
	out := make([]encoded, len(inputs))
	most := min(s.mostPayload(), MaxValue)
	for i := range inputs {
		data, err := json.Marshal(&inputs[i])
		if err != nil {
			return nil, fmt.Errorf("encoding input %q: %w", inputs[i].ID, err)
		}
		if int64(len(data)) > most {
			return nil, fmt.Errorf("input %q has %d bytes, and the log takes at most %d: split it, or raise the "+
				"NATS server's max_payload",
				inputs[i].ID, len(data), most)
		}
		out[i] = encoded{partition: s.Partition(inputs[i].Cluster), data: data, alerts: 1}
		if inputs[i].Alerts != nil {
			out[i].alerts = max(1, len(inputs[i].Alerts.Alerts))
		}
	}
	return out, nil
}

// A write is one waiting call of Append.
type write struct {
	inputs []encoded
	bytes  int
	taken  atomic.Bool // by the flusher, or by the caller that gave up
	done   chan error  // receives one answer
}

// A queue holds the writes that wait for the flusher.
type queue struct {
	mu     sync.Mutex
	writes []*write
	bytes  int
	closed bool
	wake   chan struct{} // holds one signal; closed with the queue
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

// take returns the next writes that fit one batch, in order, or none. A write larger than maxJoin
// goes alone.
func (q *queue) take() (group []*write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes, inputs, n := 0, 0, 0
	for _, w := range q.writes {
		if len(group) > 0 && (inputs+len(w.inputs) > maxBatch || bytes+w.bytes > maxJoin) {
			break
		}
		n++
		q.bytes -= w.bytes
		if !w.taken.CompareAndSwap(false, true) {
			continue
		}
		group = append(group, w)
		inputs += len(w.inputs)
		bytes += w.bytes
	}
	clear(q.writes[:n])
	q.writes = q.writes[n:]
	return group
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.wake)
	}
}

// flush writes what waits, until the queue is closed and empty. One write is in progress at a time,
// so that others can collect behind it. The server syncs each single message, but a batch only
// once.
func (s *Store) flush() {
	for open := true; open; {
		_, open = <-s.queue.wake
		for {
			group := s.queue.take()
			if len(group) == 0 {
				break
			}
			packs, whole := pack(group, s.packLimit())
			if whole && len(packs) < joinFrom {
				s.writeEach(packs)
			} else {
				s.writeJoined(group, s.messages(packs))
			}
		}
	}
}

// writeJoined writes the group as one batch, which fails as a whole.
func (s *Store) writeJoined(group []*write, msgs []*nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := s.write(ctx, msgs)
	for _, w := range group {
		w.done <- err
	}
}

// write publishes inputs and records the end of the log.
func (s *Store) write(ctx context.Context, msgs []*nats.Msg) error {
	seq, err := s.publish(ctx, msgs)
	if err == nil {
		s.sawInput(seq)
	}
	return err
}

func (s *Store) sawInput(seq uint64) { raise(&s.logged, seq) }

// raise sets a value that never becomes smaller.
func raise(v *atomic.Uint64, to uint64) {
	for old := v.Load(); to > old && !v.CompareAndSwap(old, to); {
		old = v.Load()
	}
}

// writeEach writes a few messages concurrently.
func (s *Store) writeEach(packs []*packed) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	one := func(p *packed) {
		err := s.write(ctx, []*nats.Msg{s.message(p)})
		for _, w := range p.writes {
			w.done <- err
		}
	}
	var wg sync.WaitGroup
	for _, p := range packs[1:] {
		wg.Go(func() { one(p) })
	}
	one(packs[0])
	wg.Wait()
}
