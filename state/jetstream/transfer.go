package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/queue"
	"paramedic/state/jetstream/wire"
)

// A Logged is an input as the log has it. Its sequence is part of its meaning: IDs of incidents and
// turns of effects are made from it.
type Logged struct {
	Seq       uint64
	Partition int
	Data      []byte
}

// Ends returns the last sequences of the log and of the records. Each write raises one of them.
func (s *Store) Ends(ctx context.Context) (log, records uint64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	in, err := s.in.Info(ctx)
	if err != nil {
		return 0, 0, unavailable("asking the input stream", err)
	}
	st, err := s.st.Info(ctx)
	if err != nil {
		return 0, 0, unavailable("asking the state stream", err)
	}
	return in.State.LastSeq, st.State.LastSeq, nil
}

// EachInput calls visit for every input of the log, in order. It leaves out the fillers of lost
// inputs.
func (s *Store) EachInput(ctx context.Context, visit func(Logged) error) error {
	info, err := s.in.Info(ctx)
	if err != nil {
		return unavailable("asking the input stream", err)
	}
	if info.State.Msgs == 0 {
		return nil
	}
	seen := uint64(0)
	err = s.each(ctx, scope{stream: s.in, filters: []string{inputPrefix + "*"}}, info.State.LastSeq, func(m natsjs.Msg, seq uint64) error {
		if seen++; m.Subject() == lostSubject {
			return nil
		}
		partition, err := strconv.Atoi(strings.TrimPrefix(m.Subject(), inputPrefix))
		if err != nil || checkPartition(partition) != nil {
			return fmt.Errorf("input %d is in the unknown partition %s", seq, m.Subject())
		}
		data, err := wire.Decompress(m.Data())
		if err != nil {
			return fmt.Errorf("input %d: %w", seq, err)
		}
		return visit(Logged{Seq: seq, Partition: partition, Data: data})
	})
	if err != nil {
		return err
	}
	// Those that expired meanwhile do not count any more.
	if info, err = s.in.Info(ctx); err != nil {
		return unavailable("asking the input stream", err)
	}
	if seen < info.State.Msgs {
		return fmt.Errorf("%w: only %d of the %d inputs of the log can be read", state.ErrDamaged, seen, info.State.Msgs)
	}
	return nil
}

// EachRecord calls visit for every live record of a partition, timelines included, in the order of
// their last write.
func (s *Store) EachRecord(ctx context.Context, partition int, visit func(state.Record) error) error {
	waits, err := s.newestWaiting(ctx, partition)
	if err != nil {
		return err
	}
	waiting, err := s.waitingRecords(ctx, partition, waits)
	if err != nil {
		return err
	}
	newer := newWaitlist(waiting).index
	if err := s.eachPlaced(ctx, partition, func(r state.Record) error {
		if _, ok := newer[r.Key]; ok {
			return nil
		}
		return visit(r)
	}); err != nil {
		return err
	}
	for _, r := range waiting {
		if r.Value == nil {
			continue
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// eachPlaced calls visit for the live records that are at their places.
func (s *Store) eachPlaced(ctx context.Context, partition int, visit func(state.Record) error) error {
	filters := []string{recordSubject(partition, ">"), recordSubject(partition, state.TimelinePrefix+".>")}
	last, err := s.lastOf(ctx, filters)
	if err != nil || last == 0 {
		return err
	}
	live, err := s.liveSet(ctx, partition)
	if err != nil {
		return err
	}
	seen := uint64(0)
	err = s.each(ctx, scope{stream: s.st, filters: filters}, last, func(m natsjs.Msg, seq uint64) error {
		seen++
		r, err := record(m.Subject(), m.Data())
		if m.Headers().Get(deletedHeader) != "" || !isTimeline(m.Subject()) && !live.has(r.Key, seq) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(r)
	})
	if err == nil {
		err = s.checkComplete(ctx, filters, seen)
	}
	return err
}

// each scans up to the last sequence, until visit fails.
func (s *Store) each(ctx context.Context, of scope, last uint64, visit func(natsjs.Msg, uint64) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	_, err := s.scan(ctx, of, 1, last, func(m natsjs.Msg, seq uint64) {
		if failed != nil {
			return
		}
		if failed = visit(m, seq); failed != nil {
			stop()
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// Sum returns the number and the sum of a partition's records, as the last Load or Commit left
// them.
func (s *Store) Sum(partition int) state.Sum { return s.sums.Sum(partition) }

// MaxMessage returns the size of the largest input or record that the store takes.
func (s *Store) MaxMessage() int64 { return min(s.nc.MaxPayload(), MaxValue) }

// clear removes what an import left that did not complete, and returns an error if the store is not
// empty.
func (s *Store) clear(ctx context.Context) error {
	found := map[string]uint64{}
	for _, name := range []string{inputStream, stateStream} {
		have, err := s.js.Stream(ctx, name)
		if errors.Is(err, natsjs.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for stream %s: %w", name, err)
		}
		if have.CachedInfo().Config.Metadata[fillingKey] != "" {
			if err := s.js.DeleteStream(ctx, name); err != nil {
				return fmt.Errorf("removing stream %s of an import that did not complete: %w", name, err)
			}
			continue
		}
		info, err := have.Info(ctx, natsjs.WithSubjectFilter(">"))
		if err != nil {
			return unavailable("asking stream "+name, err)
		}
		found[name] = info.State.Msgs
		for subject, messages := range info.State.Subjects {
			// A bot that got no input leaves these.
			if slices.ContainsFunc([]string{"paramedic.probe.", "paramedic.lease.", "paramedic.pos."},
				func(prefix string) bool { return strings.HasPrefix(subject, prefix) }) {
				found[name] -= messages
			}
		}
		if name == inputStream && found[name] == 0 && info.State.LastSeq > 0 {
			found[name] = 1 // its inputs have expired
		}
	}
	if found[inputStream]+found[stateStream] > 0 {
		return fmt.Errorf("the store is not empty: it has %d inputs and %d records. An import needs a state.dir without a "+
			"state, or a NATS server without the streams %s and %s. Nothing was written",
			found[inputStream], found[stateStream], inputStream, stateStream)
	}
	return nil
}

// A Filler writes the inputs of another store into an empty log, at their sequences.
type Filler struct {
	s     *Store
	next  uint64 // the sequence of the next message
	batch []*nats.Msg
	bytes int
}

// Filler returns a filler for a log that begins at the sequence first.
func (s *Store) Filler(ctx context.Context, first uint64) (*Filler, error) {
	if first > 1 {
		ctx, cancel := bounded(ctx)
		defer cancel()
		if err := s.in.Purge(ctx, natsjs.WithPurgeSequence(first)); err != nil {
			return nil, unavailable("moving the beginning of the log", err)
		}
	}
	return &Filler{s: s, next: max(first, 1)}, nil
}

// Input writes an input at its sequence, which must be higher than the one before. A gap is filled
// as a lost input is.
func (f *Filler) Input(ctx context.Context, in Logged) error {
	if err := f.pad(ctx, in.Seq); err != nil {
		return err
	}
	m := nats.NewMsg(inputSubject(in.Partition))
	m.Data = f.s.compress(in.Data)
	return f.add(ctx, m)
}

// End writes the rest, so that the log ends at the sequence last.
func (f *Filler) End(ctx context.Context, last uint64) error {
	if err := f.pad(ctx, last+1); err != nil {
		return err
	}
	return f.flush(ctx)
}

// pad adds fillers up to the sequence.
func (f *Filler) pad(ctx context.Context, seq uint64) error {
	for f.next < seq {
		if err := f.add(ctx, nats.NewMsg(lostSubject)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filler) add(ctx context.Context, m *nats.Msg) error {
	if len(f.batch) == maxBatch || f.bytes+size(m) > queue.MaxJoin {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	f.batch, f.bytes, f.next = append(f.batch, m), f.bytes+size(m), f.next+1
	return nil
}

func (f *Filler) flush(ctx context.Context) error {
	if len(f.batch) == 0 {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	seq, err := f.s.publish(ctx, f.batch)
	switch {
	case err != nil:
		return fmt.Errorf("writing inputs up to %d: %w", f.next-1, err)
	case seq != f.next-1:
		return fmt.Errorf("input %d got the sequence %d: another process writes to this store, stop it", f.next-1, seq)
	}
	f.s.sawInput(seq)
	f.batch, f.bytes = nil, 0
	return nil
}

// Filled ends an import: from now on a bot may open the store.
func (s *Store) Filled(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	cfg := s.cfg
	cfg.Purpose = Run
	return s.create(ctx, &cfg)
}
