package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

const (
	// readAhead and readAheadBytes bound what the server sends before it is asked for more.
	readAhead      = 1000
	readAheadBytes = 24 << 20
	// scanIdle is how soon the server drops the consumer of a scan whose process died.
	scanIdle = time.Minute
	// again is the wait before a read that a commit overtook, or that met a replica which is behind, is tried once more.
	again = 20 * time.Millisecond
)

var errMoved = errors.New("the partition was committed while it was read")

// Load reads the partition's live records, without the timelines, and the fence of the commit that made them. It reads again when
// another reader commits meanwhile.
func (s *Store) Load(ctx context.Context, partition int) ([]state.Record, state.Fence, error) {
	if err := checkPartition(partition); err != nil {
		return nil, state.Fence{}, err
	}
	for {
		if err := s.alive(ctx); err != nil {
			return nil, state.Fence{}, err
		}
		records, fence, err := s.load(ctx, partition)
		if err == nil || !errors.Is(err, errMoved) {
			return records, fence, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, state.Fence{}, unavailable(fmt.Sprintf("loading partition %d", partition), errors.Join(err, ctx.Err()))
		}
	}
}

func (s *Store) load(ctx context.Context, partition int) ([]state.Record, state.Fence, error) {
	pos, rev, err := s.boundedPosition(ctx, partition)
	if err != nil || rev == 0 { // no commit: no records
		return nil, state.Fence{}, err
	}
	var records []state.Record
	var seen uint64
	filter := []string{recordSubject(partition, ">"), positionSubject(partition)}
	err = s.scan(ctx, filter, func(m natsjs.Msg, seq uint64) {
		switch {
		case m.Subject() == positionSubject(partition):
			seen = seq
		case m.Headers().Get(deletedHeader) == "":
			records = append(records, record(m))
		}
	})
	if err != nil {
		return nil, state.Fence{}, fmt.Errorf("loading partition %d: %w", partition, err)
	}
	// The scan may have been answered by a replica that is behind (seen < rev), or overtaken by a commit (seen or now > rev).
	_, now, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, state.Fence{}, err
	}
	if seen != rev || now != rev {
		return nil, state.Fence{}, errMoved
	}
	return records, state.Fence{Position: pos.Position, Rev: rev}, nil
}

func (s *Store) boundedPosition(ctx context.Context, partition int) (position, uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.position(ctx, partition)
}

// List reads the records whose key is the prefix or goes on from it with a dot, in the order in which they were first written.
func (s *Store) List(ctx context.Context, partition int, prefix string) ([]state.Record, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if err := checkPartition(partition); err != nil {
		return nil, err
	}
	if !validKey(prefix) {
		return nil, fmt.Errorf("key prefix %q: want dot-separated tokens of letters, digits, '-' and '_'", prefix)
	}
	type placed struct {
		state.Record
		first uint64
	}
	var found []placed
	subject := recordSubject(partition, prefix)
	err := s.scan(ctx, []string{subject, subject + ".>"}, func(m natsjs.Msg, seq uint64) {
		if m.Headers().Get(deletedHeader) == "" {
			found = append(found, placed{record(m), firstWritten(m.Headers(), seq)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", prefix, err)
	}
	slices.SortStableFunc(found, func(a, b placed) int { return cmp.Compare(a.first, b.first) })
	records := make([]state.Record, len(found))
	for i, f := range found {
		records[i] = f.Record
	}
	return records, nil
}

// record never gives a nil value: that would mean deletion.
func record(m natsjs.Msg) state.Record {
	value := m.Data()
	if value == nil {
		value = []byte{}
	}
	return state.Record{Key: recordKey(m.Subject()), Value: value}
}

// scan visits the newest message of every subject that the filters match, in the order of their sequences.
func (s *Store) scan(ctx context.Context, filters []string, visit func(natsjs.Msg, uint64)) error {
	asking, cancel := bounded(ctx)
	defer cancel()
	cons, err := s.st.CreateConsumer(asking, natsjs.ConsumerConfig{
		AckPolicy:         natsjs.AckNonePolicy,
		DeliverPolicy:     natsjs.DeliverLastPerSubjectPolicy,
		FilterSubjects:    filters,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: scanIdle,
	})
	if err != nil {
		return unavailable("reading", err)
	}
	info := cons.CachedInfo()
	defer func() {
		// What is not deleted here goes after scanIdle.
		ctx, cancel := bounded(context.WithoutCancel(ctx))
		defer cancel()
		if err := s.st.DeleteConsumer(ctx, info.Name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
			s.log.Debug("deleting a consumer", "err", err)
		}
	}()
	if info.NumPending == 0 {
		return nil
	}
	it, err := cons.Messages(natsjs.PullMaxMessagesWithBytesLimit(readAhead, readAheadBytes))
	if err != nil {
		return unavailable("reading", err)
	}
	defer it.Stop()
	for n := uint64(1); ; n++ {
		next, cancel := bounded(ctx)
		m, err := it.Next(natsjs.NextContext(next))
		cancel()
		if err != nil {
			return unavailable("reading", err)
		}
		md, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("the record %s is corrupt: %w", recordKey(m.Subject()), err)
		}
		if md.Sequence.Consumer != n { // one was lost on its way
			return fmt.Errorf("%w: a message was lost before %s", state.ErrUnavailable, recordKey(m.Subject()))
		}
		visit(m, md.Sequence.Stream)
		if md.NumPending == 0 {
			return nil
		}
	}
}
