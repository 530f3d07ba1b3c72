package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
)

// A draft names the records of a commit that is larger than one batch. The records are written
// twice: first under subjects of the draft, which no load reads, then to their places. The position
// that names the draft makes the commit durable. A load that finds a draft moves its records to
// their places.
type draft struct {
	ID      string `json:"id"`
	Records uint64 `json:"records"`
}

// draftKeyHeader holds the key of a draft's record.
const draftKeyHeader = "Paramedic-Key"

func draftSubject(partition int, rest string) string {
	return "paramedic.draft." + strconv.Itoa(partition) + "." + rest
}

// commitLarge writes more records than one batch takes, and returns the revision of the position.
// The records begin with those that wait in the position before.
func (s *Store) commitLarge(ctx context.Context, partition int, fence state.Fence, pos position,
	waiting, records []state.Record) (uint64, error) {
	pos.Draft = &draft{ID: rand.Text(), Records: uint64(len(records))}
	pos.inline = waiting // lists show them until they are at their places
	rev, err := s.writeDraft(ctx, partition, fence, pos, records)
	if err != nil {
		return 0, err
	}
	return s.placeDraft(ctx, partition, rev, pos, records)
}

// writeDraft writes the records under the draft's subjects, and then the position that names it.
func (s *Store) writeDraft(ctx context.Context, partition int, fence state.Fence, pos position,
	records []state.Record) (uint64, error) {
	if err := s.checkRecords(records); err != nil {
		return 0, err
	}
	msgs := s.recordMessages(partition, records)
	switch _, now, err := s.boundedPosition(ctx, partition); {
	case err != nil:
		return 0, err
	case now != fence.Rev:
		return 0, fmt.Errorf("%w: at revision %d, not %d", state.ErrFenced, now, fence.Rev)
	}
	for i, m := range msgs {
		d := nats.NewMsg(draftSubject(partition, pos.Draft.ID+"."+strconv.Itoa(i)))
		d.Data = m.Data
		d.Header.Set(draftKeyHeader, records[i].Key)
		if records[i].Value == nil {
			d.Header.Set(deletedHeader, "1")
		}
		msgs[i] = d
	}
	for batch := range slices.Chunk(msgs, maxBatch) {
		if _, err := s.writeAll(ctx, batch); err != nil {
			return 0, err
		}
	}
	return s.commit(ctx, partition, fence, pos, nil)
}

// writeAll writes messages to places that no reader looks at yet.
func (s *Store) writeAll(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.publish(ctx, msgs)
}

// placeDraft writes a draft's records to their places, and last the position without the draft. A
// process that does not hold the lease then removes this draft only: the active one may have begun
// another.
func (s *Store) placeDraft(ctx context.Context, partition int, rev uint64, pos position,
	records []state.Record) (uint64, error) {
	done := draftSubject(partition, ">")
	if !s.Held() {
		done = draftSubject(partition, pos.Draft.ID+".>")
	}
	pos.inline = nil // at most inlineRecords, and the first batch has them
	for len(records) > 0 {
		n := min(len(records), MaxRecords)
		batch := records[:n]
		if records = records[n:]; len(records) == 0 {
			pos.Draft = nil
		}
		var err error
		if rev, err = s.commit(ctx, partition, state.Fence{Rev: rev}, pos, batch); err != nil {
			return 0, err
		}
	}
	if err := s.purge(ctx, done); err != nil { // the next commit tries again
		s.log.WarnContext(ctx, "a draft of a large commit could not be removed", "partition", partition, "err", err)
	}
	return rev, nil
}

// finishDraft writes a draft's records to their places, and returns errMoved: the partition must be
// loaded again.
func (s *Store) finishDraft(ctx context.Context, partition int, rev uint64, pos position) error {
	filter := []string{draftSubject(partition, pos.Draft.ID+".>")}
	last, err := s.lastOf(ctx, filter)
	if err != nil {
		return err
	}
	var records []state.Record
	if last > 0 {
		if _, err := s.scan(ctx, s.records(filter...), 1, last,
			func(m natsjs.Msg, _ uint64) {
				if r, err := draftRecord(m); err == nil { // one that cannot be read is missing
					records = append(records, r)
				}
			}); err != nil {
			return s.asDamage(ctx, partition, pos, rev, err)
		}
	}
	if missing := pos.Draft.Records - uint64(len(records)); missing != 0 {
		return s.damaged(ctx, partition, pos, rev,
			fmt.Sprintf("%d of the %d records of its newest commit are missing (stream %s)",
				missing, pos.Draft.Records, stateStream))
	}
	// Another reader was faster.
	if _, err := s.placeDraft(ctx, partition, rev, pos, records); err != nil && !errors.Is(err, state.ErrFenced) {
		return err
	}
	return errMoved
}

// draftRecord returns the record in a draft's message.
func draftRecord(m natsjs.Msg) (state.Record, error) {
	r := state.Record{Key: m.Headers().Get(draftKeyHeader)}
	if m.Headers().Get(deletedHeader) != "" {
		return r, nil
	}
	value, err := wire.Decompress(m.Data())
	r.Value = slices.Concat([]byte{}, value) // not nil, which would delete
	return r, err
}
