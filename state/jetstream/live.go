package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
)

const (
	// tombstoneTime is the time after which the server removes the tombstone of a deleted record.
	// The live records are written down every liveEvery, long before that.
	tombstoneTime = 10 * time.Minute
	liveEvery     = time.Minute
	// liveChunk bounds one message of a live set. A NATS server takes 1 MiB by default.
	liveChunk = 512 << 10
)

// The headers of a live set's messages. Only the first message has the last two.
const (
	liveIDHeader     = "Paramedic-Live"
	liveRevHeader    = "Paramedic-Revision"
	liveChunksHeader = "Paramedic-Chunks"
)

// A liveSet names the records that a partition had at one revision of its position.
//
// A server keeps one message per subject, but it does not note on disk which messages were
// replaced: at a start it removes every older message of a subject again. When the tombstone of a
// deleted record has expired, no newer message is left. If the process is then killed, the next
// start brings back the record's last value (nats-server 2.15.2: removeMsgViaLimits writes no
// tombstone, expireMsgs does). A load ignores such a record, because the set does not name it.
type liveSet struct {
	rev   uint64
	names []uint64 // sorted
}

// has reports whether a message holds a live record, as far as this set knows. A message after its
// revision may.
func (l *liveSet) has(key string, seq uint64) bool {
	if seq > l.rev {
		return true
	}
	_, found := slices.BinarySearch(l.names, wire.Name(key))
	return found
}

func liveSubject(partition, chunk int) string {
	return positionSubject(partition) + "-live-" + strconv.Itoa(chunk)
}

// liveSet reads a partition's live set. Without a readable one it returns a set that knows nothing:
// the sum of the records then decides.
func (s *Store) liveSet(ctx context.Context, partition int) (*liveSet, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	tried := uint64(0)
	for {
		head, err := s.st.GetLastMsgForSubject(ctx, liveSubject(partition, 0))
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			return &liveSet{}, nil
		}
		if err != nil {
			return nil, unavailable("reading the names of the live records", err)
		}
		set, err := s.readLive(ctx, partition, head)
		if err == nil || errors.Is(err, state.ErrUnavailable) {
			return set, err
		}
		if head.Sequence == tried { // nothing has replaced it meanwhile
			s.log.WarnContext(ctx, "the names of the live records cannot be read: a load continues without them", "partition", partition,
				"err", err)
			return &liveSet{}, nil
		}
		tried = head.Sequence
	}
}

// readLive reads the rest of a live set.
func (s *Store) readLive(ctx context.Context, partition int, head *natsjs.RawStreamMsg) (*liveSet, error) {
	set, chunks, err := liveHead(head)
	if err != nil {
		return nil, err
	}
	m := head
	for i := range chunks {
		if i > 0 {
			m, err = s.st.GetLastMsgForSubject(ctx, liveSubject(partition, i))
			if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) {
				return nil, unavailable("reading the names of the live records", err)
			}
			if err != nil || m.Header.Get(liveIDHeader) != head.Header.Get(liveIDHeader) {
				return nil, fmt.Errorf("%s is missing or of another set", liveSubject(partition, i))
			}
		}
		if set.names, err = wire.DecodeNames(set.names, m.Data); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", m.Subject, err)
		}
	}
	return set, nil
}

// liveHead reads the headers of a set's first message.
func liveHead(m *natsjs.RawStreamMsg) (set *liveSet, chunks int, err error) {
	rev, revErr := strconv.ParseUint(m.Header.Get(liveRevHeader), 10, 64)
	chunks, chunksErr := strconv.Atoi(m.Header.Get(liveChunksHeader))
	if err := errors.Join(revErr, chunksErr); err != nil {
		return nil, 0, fmt.Errorf("%s is damaged: %w", m.Subject, err)
	}
	return &liveSet{rev: rev}, chunks, nil
}

// keepLive writes the live sets, and removes deleted records that came back, until the store
// closes.
func (s *Store) keepLive() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-s.closed; cancel() }()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		for p := range partitions {
			if err := errors.Join(s.saveLive(ctx, p), s.sweep(ctx, p)); err != nil && s.alive(ctx) == nil {
				s.log.WarnContext(ctx, "deleted records cannot be kept deleted, Paramedic tries again", "partition", p, "err", err)
			}
		}
	}
}

// saveLive writes a partition's live set if records were deleted since the last one. Another
// process may have written a newer one.
func (s *Store) saveLive(ctx context.Context, partition int) error {
	rev, names, gone := s.sums.Live(partition)
	if gone == 0 {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	was := uint64(0)
	head, err := s.st.GetLastMsgForSubject(ctx, liveSubject(partition, 0))
	switch {
	case err == nil:
		was = head.Sequence
		if set, _, err := liveHead(head); err == nil && set.rev >= rev {
			s.sums.Saved(partition, gone)
			return nil
		}
	case !errors.Is(err, natsjs.ErrMsgNotFound):
		return unavailable("reading the names of the live records", err)
	}
	id := rand.Text()
	chunks := wire.EncodeNames(names, liveChunk)
	msgs := make([]*nats.Msg, len(chunks))
	for i, chunk := range chunks {
		msgs[i] = nats.NewMsg(liveSubject(partition, i))
		msgs[i].Data = chunk
		msgs[i].Header.Set(liveIDHeader, id)
	}
	msgs[0].Header.Set(liveRevHeader, strconv.FormatUint(rev, 10))
	msgs[0].Header.Set(liveChunksHeader, strconv.Itoa(len(chunks)))
	msgs[0].Header.Set(expectLastHeader, strconv.FormatUint(was, 10))
	if _, err := s.publish(ctx, msgs); err != nil {
		if errors.Is(err, state.ErrFenced) { // the next time compares the revisions
			return nil
		}
		return err
	}
	s.sums.Saved(partition, gone)
	return nil
}

// sweep removes the deleted records that a load has found again.
func (s *Store) sweep(ctx context.Context, partition int) error {
	found := s.sums.TakeDead(partition)
	for i, m := range found {
		err := s.alive(ctx)
		if err == nil {
			purging, cancel := bounded(ctx)
			err = s.st.Purge(purging, natsjs.WithPurgeSubject(m.Subject), natsjs.WithPurgeSequence(m.Seq+1))
			cancel()
		}
		if err != nil {
			s.sums.AddDead(partition, found[i:])
			return unavailable("removing "+m.Subject, err)
		}
	}
	return nil
}
