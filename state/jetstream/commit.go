package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crypto/rand"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/link"
)

const (
	// deletedHeader marks a tombstone. An atomic batch can replace a record, but not remove it.
	deletedHeader = "Paramedic-Deleted"
	// firstHeader holds the sequence at which a rewritten timeline record was first written.
	firstHeader = "Paramedic-First"
)

// A position is the record that each commit updates.
type position struct {
	Position uint64 `json:"position"`
	Commit   string `json:"commit"` // distinguishes this process's commit from another's if the answer was lost
	// Sum is of the live records, without timelines. Nil means not known: older versions did not
	// write it.
	Sum     *state.Sum `json:"sum,omitempty"`
	Log     uint64     `json:"log,omitempty"`     // the log goes at least to here
	Draft   *draft     `json:"draft,omitempty"`   // its records may not be at their places yet; Sum includes them
	Partial bool       `json:"partial,omitempty"` // the records are being written anew; Position and Sum are the old ones
	Links   link.List  `json:"links,omitempty"`   // the oldest first; their records are not at their places yet; Sum includes them

	inline []state.Record // not at their places yet, and newer than those of the links; Sum includes them
}

// Commit writes the records and the position, all or none, if the fence is the partition's newest.
// A small commit keeps its records in the position, a larger one in a link. Where there are no
// links, one of more than MaxRecords is written twice.
func (s *Store) Commit(ctx context.Context, partition int, fence state.Fence, to uint64,
	records []state.Record) (state.Fence, error) {
	if err := s.alive(ctx); err != nil {
		return state.Fence{}, err
	}
	if err := checkPartition(partition); err != nil {
		return state.Fence{}, err
	}
	waiting, err := s.waiting(ctx, partition, fence.Rev)
	if err != nil {
		return state.Fence{}, fmt.Errorf("committing partition %d: %w", partition, err)
	}
	pos := position{Position: to, Links: waiting.links}
	sum, changes, known := s.sums.SumAfter(partition, fence.Rev, records)
	if known {
		pos.Sum = &sum
	}
	var rev uint64
	var placed []state.Record
	all := waiting.with(records)
	switch {
	// A partition always has a record at its place. Without one, a lost position would look like a
	// new partition.
	case fence.Position > 0 && s.mayWait(all):
		pos.inline = all.records
		rev, placed, err = s.commitAndPlace(ctx, partition, fence, pos)
	case fence.Position > 0 && s.mayLink(all):
		rev, placed, err = s.commitLinked(ctx, partition, fence, pos, all.records)
	case len(all.records) <= MaxRecords:
		placed = s.sums.DropNeedlessDeletions(partition, fence.Rev, all.records)
		rev, err = s.commit(ctx, partition, fence, pos, placed)
	default:
		placed = all.records
		rev, err = s.commitLarge(ctx, partition, fence, pos, waiting.records, placed)
	}
	if err != nil {
		return state.Fence{}, fmt.Errorf("committing partition %d: %w", partition, err)
	}
	if known {
		s.sums.Commit(partition, fence.Rev, rev, sum, changes, placed)
	}
	return state.Fence{Position: to, Rev: rev}, nil
}

// commit writes the records and the position, and returns the position's revision.
func (s *Store) commit(ctx context.Context, partition int, fence state.Fence, pos position,
	records []state.Record) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for _, list := range [][]state.Record{records, pos.inline} {
		if err := s.checkRecords(list); err != nil {
			return 0, err
		}
	}
	msgs := s.recordMessages(partition, records)
	pos.Commit, pos.Log = rand.Text(), max(pos.Position, s.logged.Load())
	data, err := pos.encode()
	if err != nil {
		return 0, err
	}
	m := nats.NewMsg(positionSubject(partition))
	m.Data = data
	m.Header.Set(expectLastHeader, strconv.FormatUint(fence.Rev, 10))
	msgs = append(msgs, m) // last: a reader that has it has read the whole commit

	rev, err := s.publish(ctx, msgs)
	switch {
	case errors.Is(err, state.ErrFenced):
		rev, err = s.rewrite(ctx, partition, fence, msgs)
	case errors.Is(err, state.ErrUnavailable):
		rev, err = s.confirmCommit(partition, pos.Commit, err)
	}
	if err == nil {
		s.keepWaiting(partition, rev, pos)
	}
	return rev, err
}

// checkRecords returns an error for a record that cannot be stored.
func (s *Store) checkRecords(records []state.Record) error {
	for _, r := range records {
		if !validKey(r.Key) {
			return fmt.Errorf("record key %q: want dot-separated tokens of letters, digits, '-' and '_'", r.Key)
		}
		if most := min(s.mostPayload(), MaxValue); int64(len(r.Value)) > most {
			return fmt.Errorf("record %s has %d bytes, and the store takes at most %d", r.Key, len(r.Value), most)
		}
	}
	return nil
}

func (s *Store) recordMessages(partition int, records []state.Record) []*nats.Msg {
	msgs := make([]*nats.Msg, 0, len(records)+1)
	for _, r := range records {
		m := nats.NewMsg(recordSubject(partition, r.Key))
		m.Data = s.compress(r.Value)
		switch {
		case r.Value == nil:
			m.Header.Set(deletedHeader, "1")
			m.Header.Set(ttlHeader, s.tombstones.String())
		case isTimeline(m.Subject):
			// Timelines only grow. This expectation costs nothing, and rewrite handles the
			// exceptions.
			m.Header.Set(expectLastHeader, "0")
		}
		msgs = append(msgs, m)
	}
	return msgs
}

func isTimeline(subject string) bool { return strings.HasPrefix(subject, "paramedic.tl.") }

// rewrite retries a refused commit if not the position was refused, but a timeline record that
// exists already. That record keeps its place in the order.
func (s *Store) rewrite(ctx context.Context, partition int, fence state.Fence, msgs []*nats.Msg) (uint64, error) {
	_, now, err := s.position(ctx, partition)
	if err != nil {
		return 0, err
	}
	if now != fence.Rev {
		return 0, fmt.Errorf("%w: at revision %d, not %d", state.ErrFenced, now, fence.Rev)
	}
	for _, m := range msgs {
		if !isTimeline(m.Subject) || m.Header.Get(deletedHeader) != "" {
			continue
		}
		m.Header.Del(expectLastHeader)
		old, err := s.st.GetLastMsgForSubject(ctx, m.Subject)
		switch {
		case errors.Is(err, natsjs.ErrMsgNotFound):
		case err != nil:
			return 0, unavailable("reading "+recordKey(m.Subject), err)
		case old.Header.Get(deletedHeader) == "":
			m.Header.Set(firstHeader, strconv.FormatUint(firstWritten(old.Header, old.Sequence), 10))
		}
	}
	return s.publish(ctx, msgs)
}

// confirmCommit finds out whether a commit whose answer was lost has happened. If it cannot, it
// returns the failure. The next commit then fences off a commit that is still on its way.
func (s *Store) confirmCommit(partition int, id string, failure error) (uint64, error) {
	ctx, cancel := bounded(context.Background()) // the caller's context may have ended
	defer cancel()
	select {
	case <-s.closed:
		return 0, failure
	default:
	}
	pos, rev, err := s.position(ctx, partition)
	if err != nil || pos.Commit != id {
		return 0, failure
	}
	return rev, nil
}

// position reads a partition's position and its revision from the stream's leader. Both are zero
// before the first commit.
func (s *Store) position(ctx context.Context, partition int) (position, uint64, error) {
	subject := positionSubject(partition)
	m, err := s.st.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return position{}, 0, nil
	}
	if err != nil {
		return position{}, 0, unavailable("reading the position", err)
	}
	pos, err := decodePosition(m.Data)
	if err != nil {
		return position{}, 0, fmt.Errorf("the record %s (stream %s, sequence %d) is corrupt: %w", subject, stateStream,
			m.Sequence, err)
	}
	return pos, m.Sequence, nil
}

func checkPartition(p int) error {
	if p < 0 || p >= partitions {
		return fmt.Errorf("there is no partition %d, only 0 to %d", p, partitions-1)
	}
	return nil
}

func firstWritten(h nats.Header, seq uint64) uint64 {
	if first, err := strconv.ParseUint(h.Get(firstHeader), 10, 64); err == nil {
		return first
	}
	return seq
}
