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
	// scanPause is how long a scan waits for its next message before it looks for the reason; mostPauses is how often it then begins anew.
	scanPause  = 2 * time.Second
	mostPauses = 5
	// again is the wait before a read that a commit overtook, or that met a replica which is behind, is tried once more.
	again = 20 * time.Millisecond
)

var (
	errMoved  = errors.New("the partition was committed while it was read")
	errPaused = errors.New("the server paused in the middle of a read")
)

// Load reads the partition's live records, without the timelines, and the fence of the commit that made them. It reads again when
// another reader commits meanwhile.
func (s *Store) Load(ctx context.Context, partition int) ([]state.Record, state.Fence, error) {
	if err := checkPartition(partition); err != nil {
		return nil, state.Fence{}, err
	}
	var records []state.Record
	var fence state.Fence
	err := s.retry(ctx, func() (err error) {
		records, fence, err = s.load(ctx, partition)
		return err
	})
	if err != nil {
		return nil, state.Fence{}, fmt.Errorf("loading partition %d: %w", partition, err)
	}
	return records, fence, nil
}

// retry reads again what a commit overtook, or what a replica that is behind could not give.
func (s *Store) retry(ctx context.Context, read func() error) error {
	for paused := 0; ; {
		if err := s.alive(ctx); err != nil {
			return err
		}
		err := read()
		switch {
		case errors.Is(err, errPaused):
			if paused++; paused == mostPauses {
				return unavailable("reading", err)
			}
		case !errors.Is(err, errMoved):
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return unavailable("reading", errors.Join(err, ctx.Err()))
		}
	}
}

func (s *Store) load(ctx context.Context, partition int) ([]state.Record, state.Fence, error) {
	pos, rev, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, state.Fence{}, err
	}
	if rev == 0 {
		return nil, state.Fence{}, s.empty(ctx, partition)
	}
	newest := map[string]placed{}
	var seen uint64
	filter := []string{recordSubject(partition, ">"), positionSubject(partition)}
	err = s.scan(ctx, filter, rev, func(m natsjs.Msg, seq uint64) {
		switch {
		case m.Subject() == positionSubject(partition):
			seen = seq
		default:
			keepNewest(newest, m, seq)
		}
	})
	if err != nil {
		return nil, state.Fence{}, err
	}
	// The scan ends with the position, which a commit writes last, unless another commit overtook it.
	_, now, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, state.Fence{}, err
	}
	if seen != rev || now != rev {
		return nil, state.Fence{}, errMoved
	}
	return inOrder(newest, func(p placed) uint64 { return p.seq }), state.Fence{Position: pos.Position, Rev: rev}, nil
}

// A placed is a record as one message has it.
type placed struct {
	state.Record
	seq, first uint64 // of this message, and of the first that had the key
	deleted    bool
}

// keepNewest takes a message unless a newer one of its subject was seen: a replica that is behind gives both.
func keepNewest(newest map[string]placed, m natsjs.Msg, seq uint64) {
	if old, ok := newest[m.Subject()]; !ok || old.seq < seq {
		newest[m.Subject()] = placed{Record: record(m), seq: seq, first: firstWritten(m.Headers(), seq), deleted: m.Headers().Get(deletedHeader) != ""}
	}
}

// inOrder lists the records that live.
func inOrder(newest map[string]placed, by func(placed) uint64) []state.Record {
	live := make([]placed, 0, len(newest))
	for _, p := range newest {
		if !p.deleted {
			live = append(live, p)
		}
	}
	slices.SortFunc(live, func(a, b placed) int { return cmp.Or(cmp.Compare(by(a), by(b)), cmp.Compare(a.seq, b.seq)) })
	records := make([]state.Record, len(live))
	for i, p := range live {
		records[i] = p.Record
	}
	return records
}

// empty makes sure that a partition without a position has no records either. A server whose files were damaged starts all the same,
// with what it could read: beginning anew on that would forget incidents and page for them again.
func (s *Store) empty(ctx context.Context, partition int) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.st.Info(ctx, natsjs.WithSubjectFilter(fmt.Sprintf("paramedic.*.%d.>", partition)))
	if err != nil {
		return unavailable("asking the state stream", err)
	}
	if len(info.State.Subjects) == 0 {
		return nil
	}
	switch _, rev, err := s.position(ctx, partition); {
	case err != nil:
		return err
	case rev != 0: // the first commit came meanwhile
		return errMoved
	}
	return fmt.Errorf("partition %d has %d records and no record %s: the state was damaged, restore it from a backup or start with an empty one",
		partition, len(info.State.Subjects), positionSubject(partition))
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
	var records []state.Record
	err := s.retry(ctx, func() (err error) {
		records, err = s.list(ctx, recordSubject(partition, prefix))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", prefix, err)
	}
	return records, nil
}

func (s *Store) list(ctx context.Context, subject string) ([]state.Record, error) {
	filters := []string{subject, subject + ".>"}
	last, err := s.lastOf(ctx, filters)
	if err != nil || last == 0 {
		return nil, err
	}
	newest := map[string]placed{}
	err = s.scan(ctx, filters, last, func(m natsjs.Msg, seq uint64) { keepNewest(newest, m, seq) })
	if err != nil {
		return nil, err
	}
	return inOrder(newest, func(p placed) uint64 { return p.first }), nil
}

// lastOf is the newest sequence that the filters match, as the stream's leader knows it; 0 where there is none.
func (s *Store) lastOf(ctx context.Context, filters []string) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	last := uint64(0)
	for _, f := range filters {
		m, err := s.st.GetLastMsgForSubject(ctx, f)
		switch {
		case err == nil:
			last = max(last, m.Sequence)
		case !errors.Is(err, natsjs.ErrMsgNotFound):
			return 0, unavailable("reading", err)
		}
	}
	return last, nil
}

// record never gives a nil value: that would mean deletion.
func record(m natsjs.Msg) state.Record {
	value := m.Data()
	if value == nil {
		value = []byte{}
	}
	return state.Record{Key: recordKey(m.Subject()), Value: value}
}

// scan visits the newest message of every subject that the filters match, in the order of their sequences, until it has seen one at or
// after the given sequence. What the server says is still to come cannot end it: a replica that is behind counts wrong.
func (s *Store) scan(ctx context.Context, filters []string, until uint64, visit func(natsjs.Msg, uint64)) error {
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
	it, err := cons.Messages(natsjs.PullMaxMessagesWithBytesLimit(readAhead, readAheadBytes))
	if err != nil {
		return unavailable("reading", err)
	}
	defer it.Stop()
	for n := uint64(1); ; n++ {
		next, cancel := context.WithTimeout(ctx, scanPause)
		m, err := it.Next(natsjs.NextContext(next))
		cancel()
		if err != nil {
			return s.stalled(ctx, filters, err)
		}
		md, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("the record %s is corrupt: %w", recordKey(m.Subject()), err)
		}
		if md.Sequence.Consumer != n { // one was lost on its way
			return errPaused
		}
		visit(m, md.Sequence.Stream)
		if md.Sequence.Stream >= until {
			if md.NumPending == 0 {
				return nil
			}
			return s.complete(ctx, filters, n)
		}
	}
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
	return s.stalled(ctx, filters, fmt.Errorf("%d of %d records came", seen, there))
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
				return fmt.Errorf("the record %s (stream %s, subject %s) cannot be read, the disk may be damaged: restore the state from a backup: %w",
					recordKey(subject), stateStream, subject, err)
			}
		}
	}
	if ended != nil {
		return unavailable("reading", ended)
	}
	return fmt.Errorf("%w: %w", errPaused, cause)
}
