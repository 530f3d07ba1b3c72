package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
)

// difference describes how the records that were read differ from those that were committed.
func difference(want, have state.Sum) string {
	switch {
	case have.Records < want.Records:
		return fmt.Sprintf("%d of its %d records are missing (stream %s)", want.Records-have.Records, want.Records,
			stateStream)
	case have.Records > want.Records:
		return fmt.Sprintf("it has %d records, %d more than were committed (stream %s)", have.Records,
			have.Records-want.Records, stateStream)
	}
	return fmt.Sprintf("some of its %d records are not those that were committed (stream %s)", want.Records,
		stateStream)
}

// asDamage returns a DamagedError if err is damage, and err otherwise.
func (s *Store) asDamage(ctx context.Context, partition int, pos position, rev uint64, err error) error {
	if !errors.Is(err, state.ErrDamaged) {
		return err
	}
	_, wrong, _ := strings.Cut(err.Error(), state.ErrDamaged.Error()+": ")
	return s.damaged(ctx, partition, pos, rev, wrong)
}

// damaged returns a DamagedError for a partition. It also checks whether the log has every input of
// the records.
func (s *Store) damaged(ctx context.Context, partition int, pos position, rev uint64, wrong string) error {
	ctx, cancel := bounded(context.WithoutCancel(ctx)) // the read may have failed at the caller's deadline
	defer cancel()
	d := &state.DamagedError{Partition: partition, Wrong: wrong, Fence: state.Fence{Position: pos.Position, Rev: rev},
		Sum: pos.Sum}
	subject := inputSubject(partition)
	info, last, err := s.countInputs(ctx, subject)
	if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) {
		return unavailable("asking the input stream", err)
	}
	have := info.State
	d.Inputs = have.Subjects[subject]
	switch {
	case have.FirstSeq > 1:
		d.Gap = fmt.Sprintf("it begins at input %d, and older inputs are past state.retain", have.FirstSeq)
	case have.LastSeq < pos.Position:
		d.Gap = fmt.Sprintf("it ends at input %d, and the records need inputs up to %d", have.LastSeq,
			pos.Position)
	case have.NumDeleted > 0 || have.Subjects[lostSubject] > 0:
		d.Gap = fmt.Sprintf("%d inputs of stream %s are lost", uint64(have.NumDeleted)+have.Subjects[lostSubject],
			inputStream)
	case errors.Is(err, natsjs.ErrMsgNotFound) && d.Inputs > 0:
		d.Gap = fmt.Sprintf("the last input of subject %s cannot be read", subject)
	case errors.Is(err, natsjs.ErrMsgNotFound):
		d.Gap = "it has no input of this partition"
	default:
		d.Last = last.Sequence
	}
	if s.server == nil && d.Gap == "" && strings.Contains(wrong, unreadableRecord) {
		d.Gap = "the NATS server holds a record that it cannot read, and its writes would stop there"
	}
	return d
}

// countInputs returns the input stream's counts and the last input of a subject at one time. It
// fails with ErrMsgNotFound if the last input is missing or cannot be read.
func (s *Store) countInputs(ctx context.Context, subject string) (*natsjs.StreamInfo, *natsjs.RawStreamMsg, error) {
	for {
		info, err := s.in.Info(ctx, natsjs.WithSubjectFilter("paramedic.in.*"))
		if err != nil {
			return nil, nil, err
		}
		last, err := s.in.GetLastMsgForSubject(ctx, subject)
		if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) {
			return nil, nil, err
		}
		if now, infoErr := s.in.Info(ctx); infoErr != nil {
			return nil, nil, infoErr
		} else if now.State.LastSeq == info.State.LastSeq {
			return info, last, err
		}
	}
}

// unreadableRecord is part of the error for a record that the server has and cannot read.
const unreadableRecord = "cannot be read"

// lostSubject is a subject of the input stream outside all partitions. A message there takes the
// sequence of a lost input.
const lostSubject = "paramedic.in.lost"

// Replace writes the partition's records anew. The first commit marks the partition, so that a load
// detects that the last commit is missing.
func (s *Store) Replace(ctx context.Context, partition int, fence state.Fence, to uint64,
	records []state.Record) (state.Fence, error) {
	if err := s.alive(ctx); err != nil {
		return state.Fence{}, err
	}
	if err := checkPartition(partition); err != nil {
		return state.Fence{}, err
	}
	next, err := s.replace(ctx, partition, fence, to, records)
	if err != nil {
		return state.Fence{}, fmt.Errorf("writing partition %d anew: %w", partition, err)
	}
	return next, nil
}

func (s *Store) replace(ctx context.Context, partition int, fence state.Fence, to uint64,
	records []state.Record) (state.Fence, error) {
	was, rev, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return state.Fence{}, err
	}
	if rev != fence.Rev {
		return state.Fence{}, fmt.Errorf("%w: at revision %d, not %d", state.ErrFenced, rev, fence.Rev)
	}
	if s.server != nil {
		if done, err := s.server.Rescan(stateStream); err != nil {
			return state.Fence{}, unavailable("opening the store again", err)
		} else if done {
			after, now, err := s.reconnected(ctx, partition)
			if err != nil {
				return state.Fence{}, err
			}
			rev = now
			if was.Commit == "" {
				was = after
			}
		}
	}
	if rev == 0 { // it may exist and be unreadable
		if err := s.purge(ctx, positionSubject(partition)); err != nil {
			return state.Fence{}, err
		}
	}
	mark := position{Position: was.Position, Sum: was.Sum, Partial: true}
	if rev, err = s.commit(ctx, partition, state.Fence{Rev: rev}, mark, nil); err != nil {
		return state.Fence{}, err
	}
	for _, kind := range []string{"st", "tl", "draft"} {
		if err := s.purge(ctx, fmt.Sprintf("paramedic.%s.%d.>", kind, partition)); err != nil {
			return state.Fence{}, err
		}
	}
	written := s.newLedger(rev, len(records))
	written.Gone = 1
	s.sums.Set(partition, written)
	for {
		n := min(len(records), MaxRecords)
		batch, pos := records[:n], mark
		records = records[n:]
		sum, changes, known := s.sums.SumAfter(partition, rev, batch)
		if !known {
			return state.Fence{}, state.ErrFenced
		}
		if len(records) == 0 {
			pos = position{Position: to, Sum: &sum}
		}
		next, err := s.commit(ctx, partition, state.Fence{Rev: rev}, pos, batch)
		if err != nil {
			return state.Fence{}, err
		}
		s.sums.Commit(partition, rev, next, sum, changes, batch)
		if rev = next; len(records) == 0 {
			return state.Fence{Position: to, Rev: rev}, nil
		}
	}
}

// maxMissing is more inputs than one file of the log holds.
const maxMissing = 1 << 17

// reconnected reads the position once the embedded server answers again.
func (s *Store) reconnected(ctx context.Context, partition int) (position, uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		// A request before the client notices the lost connection gets no answer.
		asking, cancel := context.WithTimeout(ctx, time.Second)
		pos, rev, err := s.position(asking, partition)
		cancel()
		if !errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
			return pos, rev, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

func (s *Store) purge(ctx context.Context, subject string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := s.st.Purge(ctx, natsjs.WithPurgeSubject(subject)); err != nil {
		return unavailable("clearing "+subject, err)
	}
	return nil
}

// continueLog makes the log continue after the newest applied input, and reports which inputs are
// lost. A server drops everything after a damaged record. It would give the same sequences to new
// inputs, and no reader would reach them. If more than maxMissing inputs are missing, the stream
// was replaced, which is no damage.
func (s *Store) continueLog(ctx context.Context) error {
	var at [partitions]uint64
	ended, applied := uint64(0), uint64(0)
	for p := range partitions {
		pos, _, err := s.position(ctx, p)
		if errors.Is(err, state.ErrUnavailable) {
			return err
		}
		at[p] = pos.Position
		applied, ended = max(applied, pos.Position), max(ended, pos.Position, pos.Log)
	}
	probed, err := s.probed(ctx)
	if err != nil {
		return err
	}
	ended = max(ended, probed)
	info, err := s.in.Info(ctx)
	if err != nil {
		return unavailable("asking the input stream", err)
	}
	s.sawInput(max(ended, info.State.LastSeq))
	if info.State.NumDeleted > 0 || info.State.FirstSeq > applied+1 {
		if err := s.countLost(ctx, at[:], applied); err != nil {
			return err
		}
	}
	missing := ended - min(ended, info.State.LastSeq)
	if missing == 0 || missing > maxMissing {
		return nil
	}
	s.lost.Add(ended - max(min(ended, applied), info.State.LastSeq))
	s.log.ErrorContext(ctx, "the end of the log is lost, the disk may be damaged: inputs that were not applied are lost, "+
		"and the log continues after them",
		"stream", inputStream, "ends", info.State.LastSeq, "ended", ended, "applied", applied)
	for missing > 0 {
		n := min(missing, maxBatch)
		msgs := make([]*nats.Msg, n)
		for i := range msgs {
			msgs[i] = nats.NewMsg(lostSubject)
		}
		if _, err := s.publish(ctx, msgs); err != nil {
			return err
		}
		missing -= n
	}
	return nil
}

// probed returns the end of the log when the store was last found ready, or 0.
func (s *Store) probed(ctx context.Context) (uint64, error) {
	m, err := s.st.GetLastMsgForSubject(ctx, probeSubject)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, unavailable("reading the last probe", err)
	}
	end, err := strconv.ParseUint(string(m.Data), 10, 64)
	if err != nil { // of an older version
		return 0, nil //nolint:nilerr // it has no end
	}
	return end, nil
}

// countLost counts the inputs that are missing at the beginning or in the middle of the log and may
// not have been applied. Their partitions are not known. In the middle it therefore looks only at
// partitions that have inputs to apply. At the beginning, where the retention removes applied
// inputs, it looks only at those that no partition has applied.
func (s *Store) countLost(ctx context.Context, at []uint64, applied uint64) error {
	from := applied
	for p, position := range at {
		last, err := s.in.GetLastMsgForSubject(ctx, inputSubject(p))
		switch {
		case err == nil && last.Sequence > position:
			from = min(from, position)
		case err != nil && !errors.Is(err, natsjs.ErrMsgNotFound):
			return unavailable("reading the log", err)
		}
	}
	info, err := s.in.Info(ctx, natsjs.WithDeletedDetails(true))
	if err != nil {
		return unavailable("asking the input stream", err)
	}
	gone := max(applied+1, info.State.FirstSeq) - (applied + 1)
	for _, seq := range info.State.Deleted {
		if seq > from {
			gone++
		}
	}
	if gone > 0 {
		s.lost.Add(gone)
		s.log.ErrorContext(ctx, "accepted inputs are missing from the log, the disk may be damaged or they are past "+
			"state.retain: those that were not applied are lost",
			"stream", inputStream, "inputs", gone, "after", from)
	}
	return nil
}
