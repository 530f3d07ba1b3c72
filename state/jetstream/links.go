package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/link"
	"paramedic/state/jetstream/wire"
)

const (
	// linkBytes, linkRecords and maxLinks bound what waits in the links of a partition. A start
	// reads the links, a key has 16 bytes of memory, and each position has 11 bytes for each link.
	// A storm of 100,000 alerts fits (docs/decisions, 0053).
	linkBytes   = 64 << 20
	linkRecords = 400_000
	maxLinks    = 1024
	// linkTime bounds how long a record waits in a link. A deleted record stays on disk so long.
	linkTime = time.Hour
	// maxLinked bounds the records of a commit, for which readers of the partition wait
	// (look-up-max-ms of BenchmarkServe).
	maxLinked = 2000
	// maxLink bounds the records of one link, before their compression.
	maxLink = 1 << 20
)

// mayLink reports whether a commit goes to a link. One that follows links must: its records are
// newer than theirs. Records that have only waited for a minute go to their places at once.
func (s *Store) mayLink(w *waitlist) bool {
	if len(w.links) > 0 {
		return true
	}
	placeNow := w.agedOut() && len(w.records) <= MaxRecords
	return s.server != nil && s.limits.links > 0 && !placeNow
}

// writeLinks writes records to new links. No reader looks at them before a position names them.
func (s *Store) writeLinks(ctx context.Context, partition int, records []state.Record) (link.List, error) {
	if err := s.checkRecords(records); err != nil {
		return nil, err
	}
	var links link.List
	for len(records) > 0 {
		n, bytes := 0, 0
		for _, r := range records {
			if bytes += len(r.Key) + len(r.Value); n > 0 && bytes > maxLink {
				break
			}
			n++
		}
		l, err := s.writeLink(ctx, partition, records[:n], bytes)
		if err != nil {
			return nil, err
		}
		links, records = append(links, l), records[n:]
	}
	return links, nil
}

// writeLink writes records of so many bytes to a new link.
func (s *Store) writeLink(ctx context.Context, partition int, records []state.Record, bytes int) (l link.Link, err error) {
	buffer := buffers.Get().(*[]byte) //nolint:forcetypeassert // of New
	defer buffers.Put(buffer)
	*buffer = wire.AppendRecords(slices.Grow((*buffer)[:0], bytes+len(records)*wire.RecordRoom), records)
	m := nats.NewMsg(draftSubject(partition, rand.Text()+".link"))
	m.Data = s.compress(*buffer)
	l = link.Link{Records: len(records), Bytes: len(m.Data)}
	l.Name(records, time.Now())
	l.Seq, err = s.writeAll(ctx, []*nats.Msg{m}) // the message is copied before it returns
	return l, err
}

// An openLink has the records of a link, and the time when it was written. The records are parts of
// the data.
type openLink struct {
	at      time.Time
	records []state.Record
	data    []byte
}

var buffers = sync.Pool{New: func() any { return new([]byte) }} // for links, and for packed inputs

// free gives the data back. The records must not be used any more.
func (o openLink) free() { buffers.Put(&o.data) }

func (s *Store) readLink(ctx context.Context, l link.Link) (o openLink, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := s.st.GetMsg(ctx, l.Seq)
	if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) { // the answer also for one that cannot be read
		return openLink{}, unavailable("reading a link", err)
	}
	if err == nil {
		o.at = m.Time
		o.data, err = wire.DecompressTo(*buffers.Get().(*[]byte), m.Data) //nolint:forcetypeassert // of New
	}
	if err == nil {
		o.records, err = wire.DecodeRecords(o.data, l.Records)
	}
	if err == nil && len(o.records) != l.Records {
		err = fmt.Errorf("it has %d records", len(o.records))
	}
	if err != nil {
		return openLink{}, fmt.Errorf("%w: the %d records of a commit cannot be read (stream %s, sequence %d): %w", state.ErrDamaged,
			l.Records, stateStream, l.Seq, err)
	}
	return o, nil
}

// readLinks calls visit for each link of the position with the revision, the newest first. It reads
// some ahead. It returns the first error, or errMoved if another commit has removed a link
// meanwhile.
func (s *Store) readLinks(ctx context.Context, partition int, rev uint64, links link.List,
	visit func(i int, o openLink)) error {
	type answer struct {
		openLink
		err error
	}
	answers := make([]chan answer, len(links))
	for i := range answers {
		answers[i] = make(chan answer, 1)
	}
	ahead, ended := make(chan struct{}, 2*runtime.GOMAXPROCS(0)), make(chan struct{})
	defer close(ended)
	go func() {
		for i, l := range slices.Backward(links) {
			select {
			case ahead <- struct{}{}:
			case <-ended:
				return
			}
			go func() {
				o, err := s.readLink(ctx, l)
				answers[i] <- answer{o, err}
			}()
		}
	}()
	for i, came := range slices.Backward(answers) {
		a := <-came
		if errors.Is(a.err, state.ErrDamaged) {
			switch _, now, err := s.boundedPosition(ctx, partition); {
			case err != nil:
				return err
			case now != rev:
				return errMoved
			}
		}
		if a.err != nil {
			return a.err
		}
		visit(i, a.openLink)
		<-ahead
	}
	return nil
}

// keepRead stores what waits in a position that was read, with the keys of its links.
func (s *Store) keepRead(ctx context.Context, partition int, rev uint64, pos position) (*waitlist, error) {
	if err := s.readLinks(ctx, partition, rev, pos.Links, func(i int, o openLink) {
		pos.Links[i].Name(o.records, o.at)
		o.free()
	}); err != nil {
		return nil, err
	}
	return s.keepWaiting(partition, rev, pos), nil
}

// waitingRecords returns the newest value of each waiting record, in the order of their first
// write.
func (s *Store) waitingRecords(ctx context.Context, partition int, w *waitlist) ([]state.Record, error) {
	parts := make([][]state.Record, len(w.links))
	err := s.readLinks(ctx, partition, w.rev, w.links, func(i int, o openLink) { parts[i] = o.records })
	if err != nil {
		return nil, err
	}
	return newWaitlist(slices.Concat(append(parts, w.records)...)).records, nil
}

// waitingOf returns the newest value of each waiting record whose key starts with the tokens of a
// prefix, in the order of their first write. It keeps nothing of the links' data.
func (s *Store) waitingOf(ctx context.Context, partition int, w *waitlist, prefixes []string) ([]state.Record, error) {
	with := slices.DeleteFunc(slices.Clone(w.links), func(l link.Link) bool { return !slices.ContainsFunc(prefixes, l.Has) })
	parts := make([][]state.Record, len(with)+1)
	keep := func(i int, records []state.Record) {
		for _, r := range records {
			if slices.ContainsFunc(prefixes, r.Under) {
				parts[i] = append(parts[i], state.Record{Key: r.Key, Value: slices.Clone(r.Value)})
			}
		}
	}
	err := s.readLinks(ctx, partition, w.rev, with, func(i int, o openLink) {
		keep(i, o.records)
		o.free()
	})
	if err != nil {
		return nil, err
	}
	keep(len(with), w.records)
	return newWaitlist(slices.Concat(parts...)).records, nil
}

// commitLinked commits the position with new links for the records.
func (s *Store) commitLinked(ctx context.Context, partition int, fence state.Fence, pos position,
	records []state.Record) (rev uint64, placed []state.Record, err error) {
	links, err := s.writeLinks(ctx, partition, records)
	if err != nil {
		return 0, nil, err
	}
	pos.Links = slices.Concat(pos.Links, links)
	return s.commitAndPlace(ctx, partition, fence, pos)
}

// commitAndPlace commits the position. If too many records wait in its links, or if they have
// waited for linkTime, it also writes the oldest of them to their places, and returns those. After
// an error the commit may be durable, and the caller must load again.
func (s *Store) commitAndPlace(ctx context.Context, partition int, fence state.Fence,
	pos position) (rev uint64, placed []state.Record, err error) {
	placed, left, err := s.oldest(ctx, partition, fence.Rev, pos)
	if err != nil {
		return 0, nil, err
	}
	rest := placed
	for len(rest) > MaxRecords { // the position of each batch but the last names all links still
		if fence.Rev, err = s.commit(ctx, partition, fence, pos, rest[:MaxRecords]); err != nil {
			return 0, nil, err
		}
		rest = rest[MaxRecords:]
	}
	done := pos.Links[:len(pos.Links)-len(left)]
	pos.Links = left
	if rev, err = s.commit(ctx, partition, fence, pos, rest); err == nil {
		s.removeLinks(ctx, partition, rev, done, left)
	}
	return rev, placed, err
}

// removeLinks removes links whose records are at their places. It does so if none is left, or if
// those on disk have as many bytes as may wait: a list that reads one of them must begin anew.
func (s *Store) removeLinks(ctx context.Context, partition int, rev uint64, done, left link.List) {
	bytes := &s.placedLinks[partition]
	for _, l := range done {
		bytes.Add(int64(l.Bytes))
	}
	first, enough := rev, int64(1)
	if len(left) > 0 {
		first, enough = left[0].Seq, int64(s.limits.links)
	}
	if bytes.Load() >= enough {
		s.purgeBefore(ctx, partition, first)
		bytes.Store(0)
	}
}

// oldest returns the records of the oldest links to write to their places now, and the links that
// are left. They must be written with the commit that follows the revision. It leaves out records
// of which a newer value waits in a later link or in the position, and deletions of records that
// have never been at their places. It keeps every timeline record, so that it keeps its order.
func (s *Store) oldest(ctx context.Context, partition int, rev uint64, pos position) ([]state.Record, link.List, error) {
	n := s.due(pos.Links)
	if n == 0 {
		return nil, pos.Links, nil
	}
	stale := pos.Links.Stale(n, pos.inline)
	parts := make([][]state.Record, n)
	err := s.readLinks(ctx, partition, rev, pos.Links[:n], func(i int, o openLink) {
		for j, r := range o.records {
			if !stale[i][j] || r.Timeline() {
				parts[i] = append(parts[i], r)
			}
		}
	})
	merged := newWaitlist(slices.Concat(parts...)) // a timeline record may come twice
	return s.sums.DropNeedlessDeletions(partition, rev, merged.records), slices.Clone(pos.Links[n:]), err
}

// due returns how many of the oldest links are due. If at least one is, it also counts younger ones
// while all fit one batch.
func (s *Store) due(links link.List) (n int) {
	bytes, count := links.Size()
	over := func() bool { return bytes > s.limits.links || count > linkRecords || len(links)-n > maxLinks }
	if len(links) == 0 || !over() && time.Since(links[0].Since) < linkTime {
		return 0
	}
	for size := 0; n < len(links) && (over() || size+links[n].Records <= MaxRecords || n == 0); n++ {
		bytes, count = bytes-links[n].Bytes, count-links[n].Records
		size += links[n].Records
	}
	return n
}

// purgeBefore removes the links and drafts before a sequence. The newest position must name none of
// them. A commit that is still on its way and names one is refused: it expects an old position.
func (s *Store) purgeBefore(ctx context.Context, partition int, seq uint64) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	err := s.st.Purge(ctx, natsjs.WithPurgeSubject(draftSubject(partition, ">")), natsjs.WithPurgeSequence(seq))
	if err != nil { // the next time removes them
		s.log.WarnContext(ctx, "the links of earlier commits could not be removed", "partition", partition, "err", err)
	}
}
