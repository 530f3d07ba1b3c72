package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"paramedic/state"
	"paramedic/state/jetstream/ledger"
)

// Load reads the partition's live records without the timelines, and the fence of their commit. It
// decodes on every processor while it reads. If another reader commits meanwhile, it continues: it
// reads no place twice, and again what waits.
func (s *Store) Load(ctx context.Context, partition int, decode state.Decoder) ([]any, state.Fence, error) {
	if err := checkPartition(partition); err != nil {
		return nil, state.Fence{}, err
	}
	var values []any
	var fence state.Fence
	l := newLoading(decode)
	err := s.retry(ctx, func() (err error) {
		values, fence, err = s.load(ctx, partition, l)
		var damage *state.DamagedError
		switch {
		case errors.Is(err, errMoved):
			l.moved = true
		// The tombstone of a deleted record may have expired before it was read.
		case l.moved && errors.As(err, &damage):
			*l, err = *newLoading(decode), errMoved
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
	if err := s.takeWaiting(ctx, partition, rev, pos, l); err != nil {
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, err)
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
	values, found := l.live(s.newLedger(rev, len(l.placed)+len(l.waits)))
	if pos.Sum != nil && *pos.Sum != found.Sum {
		wrong := fmt.Errorf("%w: %s", state.ErrDamaged, difference(*pos.Sum, found.Sum))
		if named := s.stallReason(ctx, filter, wrong); errors.Is(named, state.ErrDamaged) {
			wrong = named
		}
		return nil, state.Fence{}, s.asDamage(ctx, partition, pos, rev, wrong)
	}
	s.sums.Set(partition, found)
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

	// waits has the hashes of the keys that wait in the position of revision rev or in its links.
	// What their places had at that revision is older, and is not decoded.
	waits  map[uint64]bool
	waited [][]waitingRecord
	rev    uint64

	mu     sync.Mutex
	placed map[string]decoded // by key: the newest message
	dead   []ledger.Dead
	read   uint64
	err    error // for the first record that could not be decoded
}

// A waitingRecord is decoded, or deleted.
type waitingRecord struct {
	key     string
	value   any
	part    uint64 // its part of the sum
	deleted bool
}

func newLoading(decode state.Decoder) *loading {
	return &loading{seed: maphash.MakeSeed(), decode: decode, next: 1, placed: map[string]decoded{}}
}

// takeWaiting decodes the newest value of each record that waits in a position and its links, on
// every processor, and names the keys of the links.
func (s *Store) takeWaiting(ctx context.Context, partition int, rev uint64, pos position, l *loading) error {
	_, expected := pos.Links.Size()
	l.rev, l.waits, l.waited = rev, make(map[uint64]bool, expected/2), make([][]waitingRecord, len(pos.Links)+1)
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	take := func(i int, records []state.Record, free func()) {
		records = slices.DeleteFunc(records, l.outdated)
		decoding.Go(func() (err error) {
			defer free()
			l.waited[i], err = l.decodeWaiting(records)
			return err
		})
	}
	take(len(pos.Links), slices.Clone(pos.inline), func() {})
	err := s.readLinks(ctx, partition, rev, pos.Links, func(i int, o openLink) {
		pos.Links[i].Name(o.records, o.at)
		take(i, o.records, o.free)
	})
	return cmp.Or(err, decoding.Wait())
}

// outdated reports whether a load does not need a waiting record: a timeline, or a record of which
// a newer value waits. It must see the newest records first.
func (l *loading) outdated(r state.Record) bool {
	if r.Timeline() {
		return true
	}
	key := maphash.String(l.seed, r.Key)
	known := l.waits[key]
	l.waits[key] = true
	return known
}

func (l *loading) decodeWaiting(records []state.Record) ([]waitingRecord, error) {
	out := make([]waitingRecord, len(records))
	for i, r := range records {
		out[i] = waitingRecord{key: r.Key, deleted: r.Value == nil}
		if out[i].deleted {
			continue
		}
		out[i].part = r.Hash()
		var err error
		if out[i].value, err = l.decode(r); err != nil {
			return nil, fmt.Errorf("reading record %s: %w", r.Key, err)
		}
	}
	return out, nil
}

// take decodes messages of places. Several goroutines call it at a time.
func (l *loading) take(batch []arrived) {
	made := make(map[string]decoded, len(batch))
	var failed error
	var back []ledger.Dead
	for _, m := range batch {
		key, d := recordKey(m.Subject()), place(m.Headers(), m.seq)
		switch {
		case d.deleted:
		case !l.set.has(key, m.seq):
			d.deleted = true
			back = append(back, ledger.Dead{Subject: m.Subject(), Seq: m.seq})
		case m.seq < l.rev && l.waits[maphash.String(l.seed, key)]:
			continue
		default:
			var err error
			if d.value, d.part, err = l.decodePlaced(m); failed == nil {
				failed = err
			}
		}
		keepNewest(made, key, d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read += uint64(len(batch))
	l.dead = append(l.dead, back...)
	if l.err == nil {
		l.err = failed
	}
	for key, d := range made {
		keepNewest(l.placed, key, d)
	}
}

func (l *loading) decodePlaced(m natsjs.Msg) (value any, part uint64, err error) {
	r, err := record(m.Subject(), m.Data())
	if err == nil {
		if value, err = l.decode(r); err != nil {
			err = fmt.Errorf("reading record %s: %w", r.Key, err)
		}
	}
	return value, r.Hash(), err
}

// newLedger returns a ledger with room for some records. On an external server other processes
// write to the places, too.
func (s *Store) newLedger(rev uint64, records int) ledger.Ledger {
	return s.sums.New(rev, records, s.server == nil)
}

// live adds the live records to a ledger, and returns their decoded values.
func (l *loading) live(found ledger.Ledger) ([]any, ledger.Ledger) {
	values := make([]any, 0, len(l.placed)+len(l.waits))
	found.Dead = l.dead
	for key, p := range l.placed {
		if l.waits[maphash.String(l.seed, key)] {
			continue
		}
		if p.deleted {
			found.Gone++
			continue
		}
		values = append(values, p.value)
		found.Add(key, p.part)
	}
	for _, records := range l.waited {
		for _, r := range records {
			if r.deleted { // it may be at its place
				found.Gone++
				found.AddDeleted(r.key)
				continue
			}
			values = append(values, r.value)
			found.Add(r.key, r.part)
		}
	}
	if l.set.rev == 0 { // written by an older version, whose tombstones have expired
		found.Gone++
	}
	return values, found
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
		s.sums.Set(partition, s.newLedger(0, 0))
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
