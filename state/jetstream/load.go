package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"paramedic/state"
	"paramedic/state/jetstream/link"
	"paramedic/state/jetstream/wire"
)

// Load reads the partition's live records without the timelines, and the fence of their commit. It
// decodes on every processor while it reads. If another reader commits meanwhile, it continues. It
// reads no record twice.
func (s *Store) Load(ctx context.Context, partition int, decode state.Decoder) ([]any, state.Fence, error) {
	if err := checkPartition(partition); err != nil {
		return nil, state.Fence{}, err
	}
	var values []any
	var fence state.Fence
	l := newLoading(s.sums.seed, decode)
	err := s.retry(ctx, func() (err error) {
		values, fence, err = s.load(ctx, partition, l)
		var damage *state.DamagedError
		switch {
		case errors.Is(err, errMoved):
			l.moved = true
		// The tombstone of a deleted record may have expired before it was read.
		case l.moved && errors.As(err, &damage):
			*l, err = *newLoading(s.sums.seed, decode), errMoved
		}
		return err
	})
	if err != nil {
		return nil, state.Fence{}, fmt.Errorf("loading partition %d: %w", partition, err)
	}
	return values, fence, nil
}

func (s *Store) load(ctx context.Context, partition int, l *loading) ([]any, state.Fence, error) {
	pos, rev, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, state.Fence{}, err
	}
	if rev == 0 {
		return nil, state.Fence{}, s.empty(ctx, partition)
	}
	if pos.Partial {
		return nil, state.Fence{}, s.damaged(ctx, partition, pos, rev, "an earlier rewrite did not finish")
	}
	if pos.Draft != nil {
		return nil, state.Fence{}, s.finishDraft(ctx, partition, rev, pos)
	}
	if l.set == nil {
		if l.set, err = s.liveSet(ctx, partition); err != nil {
			return nil, state.Fence{}, err
		}
	}
	filter := []string{recordSubject(partition, ">")}
	last, err := s.lastOf(ctx, filter)
	left := uint64(0)
	if err == nil && last == 0 {
		left = 1 // it has no records, or the newest cannot be read
	}
	if err == nil && last >= l.next {
		left, err = s.decodeAll(ctx, filter, last, l)
	}
	if err == nil {
		err = l.err
	}
	if err != nil {
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, err)
	}
	// A damaged record is damage even if a newer one waits in the position: the server never ends
	// its next write to the damaged one (nats-server 2.15.2).
	var unread error
	if left > 0 {
		unread = s.checkComplete(ctx, filter, l.read)
	}
	// A concurrent commit has written records that were not read, and has removed those that it
	// replaced. The records read so far are no state that was ever committed.
	_, now, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, state.Fence{}, err
	}
	if now != rev {
		return nil, state.Fence{}, errMoved
	}
	if unread != nil {
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, unread)
	}
	if err := s.takeLinks(ctx, partition, rev, pos.Links, l); err != nil {
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, err)
	}
	waiting, err := l.decodeWaiting(partition, rev, pos.inline)
	if err != nil {
		return nil, state.Fence{}, err
	}
	maps.Copy(l.newest, waiting)
	values, found := l.live()
	found = s.newLedger(found)
	l.addLeftovers(found.leftovers, rev)
	if pos.Sum != nil && *pos.Sum != found.sum {
		wrong := fmt.Errorf("%w: %s", state.ErrDamaged, difference(*pos.Sum, found.sum))
		if named := s.stallReason(ctx, filter, wrong); errors.Is(named, state.ErrDamaged) {
			wrong = named
		}
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, wrong)
	}
	found.rev = rev
	s.sums.set(partition, found)
	s.keepWaiting(partition, rev, pos)
	if s.server != nil { // an earlier process may have left some
		s.placedLinks[partition].Store(int64(s.limits.links))
	}
	return values, state.Fence{Position: pos.Position, Rev: rev}, nil
}

// decodeAll reads up to the given sequence, and returns how many messages are left according to the
// server. Every processor scans a part and decodes, because one consumer keeps one processor busy.
func (s *Store) decodeAll(ctx context.Context, filter []string, last uint64, l *loading) (left uint64, err error) {
	work := make(chan []arrived)
	var scans, decoders sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		decoders.Go(func() {
			for batch := range work {
				l.take(batch)
			}
		})
	}
	parts := partsOf(l.next, last)
	errs := make([]error, len(parts))
	for i, p := range parts {
		scans.Go(func() {
			var more uint64
			more, errs[i] = s.decodePart(ctx, filter, p, work)
			if i == len(parts)-1 {
				left = more
			}
		})
	}
	scans.Wait()
	close(work)
	decoders.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	l.next = last + 1
	return left, nil
}

// A span is a part of a stream, with both ends.
type span struct{ first, last uint64 }

// partsOf divides a part of a stream by the number of processors, unless it is small.
func partsOf(first, last uint64) (out []span) {
	n := uint64(runtime.GOMAXPROCS(0))
	if last-first < smallLoad {
		n = 1
	}
	size := (last - first + n) / n
	for ; first+size <= last; first += size {
		out = append(out, span{first, first + size - 1})
	}
	return append(out, span{first, last})
}

// decodePart sends the messages of a part to the decoders.
func (s *Store) decodePart(ctx context.Context, filter []string, p span, work chan<- []arrived) (left uint64, err error) {
	batch := make([]arrived, 0, decodeBatch)
	left, err = s.scan(ctx, s.records(filter...), p.first, p.last, func(m natsjs.Msg, seq uint64) {
		if seq > p.last { // the end of this part has no message
			return
		}
		if batch = append(batch, arrived{m, seq}); len(batch) == decodeBatch {
			work <- batch
			batch = make([]arrived, 0, decodeBatch)
		}
	})
	work <- batch
	return left, err
}

const (
	// decodeBatch is the number of messages that a decoder takes at a time.
	decodeBatch = 64
	// smallLoad is the number of sequences from which every processor scans a part. A scan costs
	// some requests.
	smallLoad = 10_000
)

// An arrived is a message with its sequence.
type arrived struct {
	natsjs.Msg
	seq uint64
}

// A loading collects the records of a partition that were read so far.
type loading struct {
	seed   maphash.Seed
	decode state.Decoder
	next   uint64 // the first sequence that was not read
	moved  bool   // a commit happened meanwhile
	set    *liveSet

	mu     sync.Mutex
	newest map[string]decoded
	dead   []dead
	read   uint64
	err    error // for the first record that could not be decoded
}

func newLoading(seed maphash.Seed, decode state.Decoder) *loading {
	return &loading{seed: seed, decode: decode, next: 1, newest: map[string]decoded{}}
}

// take decodes messages. Several goroutines call it at a time.
func (l *loading) take(batch []arrived) {
	made := make([]decoded, len(batch))
	var failed error
	var back []dead
	for i, m := range batch {
		made[i] = place(m.Headers(), m.seq)
		if made[i].deleted {
			continue
		}
		r, err := record(m.Subject(), m.Data())
		if !l.set.has(r.Key, m.seq) {
			made[i].deleted = true
			back = append(back, dead{m.Subject(), m.seq})
			continue
		}
		if err == nil {
			made[i].part = r.Hash()
			if made[i].value, err = l.decode(r); err != nil {
				err = fmt.Errorf("reading record %s: %w", r.Key, err)
			}
		}
		if failed == nil {
			failed = err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read += uint64(len(batch))
	l.dead = append(l.dead, back...)
	if l.err == nil {
		l.err = failed
	}
	for i, m := range batch {
		keepNewest(l.newest, m.Subject(), made[i])
	}
}

// takeLinks adds the records of links, and names their keys. They are newer than those at their
// places. It decodes the newest value of each record only, on every processor.
func (s *Store) takeLinks(ctx context.Context, partition int, rev uint64, links link.List, l *loading) error {
	newer, parts := map[string]bool{}, make([]map[string]decoded, len(links))
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	err := s.readLinks(ctx, partition, rev, links, func(i int, at time.Time, records []state.Record) {
		links[i].Name(records, at)
		records = slices.DeleteFunc(records, func(r state.Record) bool {
			known := newer[r.Key]
			newer[r.Key] = true
			return known
		})
		decoding.Go(func() (err error) {
			parts[i], err = l.decodeWaiting(partition, rev, records)
			return err
		})
	})
	if err = cmp.Or(err, decoding.Wait()); err == nil {
		for _, p := range parts {
			maps.Copy(l.newest, p)
		}
	}
	return err
}

// decodeWaiting decodes records that wait in a position or in a link, by subject.
func (l *loading) decodeWaiting(partition int, rev uint64, records []state.Record) (map[string]decoded, error) {
	out := make(map[string]decoded, len(records))
	for _, r := range records {
		subject := recordSubject(partition, r.Key)
		if isTimeline(subject) {
			continue
		}
		d := decoded{seq: rev, first: rev, deleted: r.Value == nil}
		if !d.deleted {
			d.part = r.Hash()
			var err error
			if d.value, err = l.decode(r); err != nil {
				return nil, fmt.Errorf("reading record %s: %w", r.Key, err)
			}
		}
		out[subject] = d
	}
	return out, nil
}

// live returns the decoded live records, and their sum.
func (l *loading) live() ([]any, ledger) {
	values := make([]any, 0, len(l.newest))
	found := ledger{parts: make(map[uint64]part, len(l.newest)), dead: l.dead}
	for subject, p := range l.newest {
		if p.deleted {
			found.gone++
			continue
		}
		values = append(values, p.value)
		found.sum.Add(p.part)
		key := recordKey(subject)
		found.parts[maphash.String(l.seed, key)] = part{p.part, wire.Name(key)}
	}
	if l.set.rev == 0 { // written by an older version, whose tombstones have expired
		found.gone++
	}
	return values, found
}

// addLeftovers adds the deletions that wait in the position of a revision and its links. Any of
// them may be of a record at its place.
func (l *loading) addLeftovers(leftovers map[uint64]bool, rev uint64) {
	if leftovers == nil {
		return
	}
	for subject, p := range l.newest {
		if p.deleted && p.seq == rev {
			leftovers[maphash.String(l.seed, recordKey(subject))] = true
		}
	}
}

// empty returns an error if a partition without a position has records. A server with damaged files
// starts with what it could read. A fresh start on that would forget incidents and page for them
// again.
func (s *Store) empty(ctx context.Context, partition int) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.st.Info(ctx, natsjs.WithSubjectFilter(fmt.Sprintf("paramedic.*.%d.>", partition)))
	if err != nil {
		return unavailable("asking the state stream", err)
	}
	if len(info.State.Subjects) == 0 {
		s.sums.set(partition, s.newLedger(ledger{}))
		return nil
	}
	switch _, rev, err := s.position(ctx, partition); {
	case err != nil:
		return err
	case rev != 0: // the first commit happened meanwhile
		return errMoved
	}
	return s.damaged(ctx, partition, position{}, 0,
		fmt.Sprintf("it has %d records, and the record %s cannot be read (stream %s)",
			len(info.State.Subjects), positionSubject(partition), stateStream))
}
