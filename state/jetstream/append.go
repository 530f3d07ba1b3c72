package jetstream

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"paramedic/state"
	"paramedic/state/jetstream/queue"
)

const (
	// joinFrom is the number of waiting messages at which one atomic batch becomes cheaper than a
	// synced write for each. The setup of a batch costs the server about this many synced writes.
	// BenchmarkAppend shows it.
	joinFrom = 8
	// writeTimeout is the time that a write may delay those behind it. A server without a leader
	// does not answer.
	writeTimeout = 5 * time.Second
)

// encodings holds buffers for the JSON of inputs.
var encodings = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// freeEncoding gives a buffer back, unless it has become larger than maxKept. Its inputs must be
// written, or never be.
func freeEncoding(b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		b.Reset()
		encodings.Put(b)
	}
}

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
	buffer := encodings.Get().(*bytes.Buffer) //nolint:forcetypeassert // of New
	encoded, err := s.encode(inputs, buffer)
	if err != nil {
		freeEncoding(buffer)
		return err
	}
	w := queue.NewWrite(encoded)
	if err := s.queue.Put(w); err != nil {
		freeEncoding(buffer)
		return err
	}
	select {
	case err := <-w.Done():
		freeEncoding(buffer)
		return err
	case <-ctx.Done():
		if w.GiveUp() {
			return unavailable("waiting for the log", ctx.Err())
		}
		return unavailable("waiting for the log's answer (the log may have the inputs)", ctx.Err())
	}
}

// encode encodes inputs into the buffer, which must not be used again before they are written.
func (s *Store) encode(inputs []state.Input, into *bytes.Buffer) ([]queue.Input, error) {
	out, ends := make([]queue.Input, len(inputs)), make([]int, len(inputs))
	most := min(s.mostPayload(), MaxValue)
	for i := range inputs {
		before := into.Len()
		if err := json.MarshalWrite(into, &inputs[i], jsonv1.DefaultOptionsV1()); err != nil {
			return nil, fmt.Errorf("encoding input %q: %w", inputs[i].ID, err)
		}
		if ends[i] = into.Len(); int64(ends[i]-before) > most {
			return nil, fmt.Errorf("input %q has %d bytes, and the log takes at most %d: split it, or raise the "+
				"NATS server's max_payload",
				inputs[i].ID, ends[i]-before, most)
		}
		out[i] = queue.Input{Partition: s.Partition(inputs[i].Cluster), Alerts: 1}
		if inputs[i].Alerts != nil {
			out[i].Alerts = max(1, len(inputs[i].Alerts.Alerts))
		}
	}
	begin := 0
	for i, end := range ends {
		out[i].Data, begin = into.Bytes()[begin:end:end], end
	}
	return out, nil
}

// flush writes what waits, until the queue is closed and empty. One write is in progress at a time,
// so that others can collect behind it. The server syncs each single message, but a batch only
// once.
func (s *Store) flush() {
	for open := true; open; {
		_, open = <-s.queue.Wake()
		for {
			group := s.queue.Take()
			if len(group) == 0 {
				break
			}
			packs, whole := queue.PackGroup(group, s.packLimit())
			if whole && len(packs) < joinFrom {
				s.writeEach(packs)
			} else {
				s.writeJoined(group, s.messages(packs))
			}
		}
	}
}

// writeJoined writes the group as one batch, which fails as a whole.
func (s *Store) writeJoined(group []*queue.Write, msgs []*nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := s.write(ctx, msgs)
	for _, w := range group {
		w.Answer(err)
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
func (s *Store) writeEach(packs []*queue.Pack) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	one := func(p *queue.Pack) {
		err := s.write(ctx, []*nats.Msg{s.message(p)})
		for _, w := range p.Writes {
			w.Answer(err)
		}
	}
	var wg sync.WaitGroup
	for _, p := range packs[1:] {
		wg.Go(func() { one(p) })
	}
	one(packs[0])
	wg.Wait()
}
