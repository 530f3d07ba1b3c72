package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream/link"
	"paramedic/state/jetstream/wire"
)

// A small commit is one message: the position, with the changed records behind it. They wait there
// until a commit has more than inlineBytes or inlineRecords with them, or until they have waited
// for inlineTime. That commit moves them to a link, or is an atomic batch that writes all of them
// to their places. BenchmarkCommit shows what both cost.
const (
	inlineBytes   = 64 << 10       // each commit writes them again
	inlineRecords = MaxRecords / 2 // with those of the next commit they fit a batch
	inlineTime    = time.Minute    // a deleted record stays on disk so long
)

// limits bound what waits, in bytes. Zero: each commit writes its records to their places.
type limits struct{ inline, links int }

// A waitlist holds the records that are in the position of one revision, and the links that it
// names. It is not changed after it was stored.
type waitlist struct {
	rev     uint64
	records []state.Record // in the position: one per key, in the order of their first write
	index   map[string]int
	bytes   int
	since   time.Time // when the first of them began to wait; zero: none waits
	links   link.List // the oldest first; their records are older than those in the position
}

func newWaitlist(records []state.Record) *waitlist {
	w := &waitlist{index: make(map[string]int, len(records))}
	w.add(records)
	return w
}

// add adds records to those in the position, and keeps the newest value of each key.
func (w *waitlist) add(records []state.Record) {
	for _, r := range records {
		if i, ok := w.index[r.Key]; ok {
			w.bytes += len(r.Value) - len(w.records[i].Value)
			w.records[i] = r
			continue
		}
		w.index[r.Key] = len(w.records)
		w.records = append(w.records, r)
		w.bytes += len(r.Key) + len(r.Value) + wire.RecordRoom
	}
}

// with returns a list that also has the records in the position.
func (w *waitlist) with(records []state.Record) *waitlist {
	next := newWaitlist(w.records)
	next.since, next.links = w.since, w.links
	next.add(records)
	return next
}

// agedOut reports whether records have waited in the position for inlineTime.
func (w *waitlist) agedOut() bool { return !w.since.IsZero() && time.Since(w.since) >= inlineTime }

// waiting returns what waits in the partition's position of a revision. It fails with ErrFenced if
// that is not the newest one.
func (s *Store) waiting(ctx context.Context, partition int, rev uint64) (*waitlist, error) {
	if rev == 0 {
		return newWaitlist(nil), nil
	}
	if w := s.waitlists[partition].Load(); w != nil && w.rev == rev {
		return w, nil
	}
	pos, now, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, err
	}
	if now != rev {
		return nil, fmt.Errorf("%w: at revision %d, not %d", state.ErrFenced, now, rev)
	}
	return s.keepRead(ctx, partition, rev, pos)
}

// keepWaiting stores what waits in a position. Records wait since an earlier position had some.
func (s *Store) keepWaiting(partition int, rev uint64, pos position) *waitlist {
	w := newWaitlist(pos.inline)
	w.rev, w.links = rev, pos.Links
	if len(w.records) > 0 {
		w.since = time.Now()
	}
	if was := s.waitlists[partition].Load(); was != nil && !was.since.IsZero() && len(w.records) > 0 {
		w.since = was.since
	}
	s.waitlists[partition].Store(w)
	return w
}

// mayWait reports whether the records of a commit may wait in its position.
func (s *Store) mayWait(w *waitlist) bool {
	return w.bytes <= min(s.limits.inline, int(s.mostPayload()/4)) && len(w.records) <= inlineRecords && !w.agedOut()
}

// newestWaiting returns what waits in the partition's newest position.
func (s *Store) newestWaiting(ctx context.Context, partition int) (*waitlist, error) {
	if w := s.waitlists[partition].Load(); w != nil && s.server != nil { // no other process commits
		return w, nil
	}
	pos, rev, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return nil, err
	}
	if w := s.waitlists[partition].Load(); w != nil && w.rev == rev {
		return w, nil
	}
	return s.keepRead(ctx, partition, rev, pos)
}

// encode returns the position as JSON, and its records in a second line.
func (p *position) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the position: %w", err)
	}
	if len(p.inline) == 0 {
		return data, nil
	}
	return wire.AppendRecords(append(data, '\n'), p.inline), nil
}

// decodePosition reverses encode.
func decodePosition(data []byte) (position, error) {
	head, rest, _ := bytes.Cut(data, []byte{'\n'})
	var p position
	if err := json.Unmarshal(head, &p); err != nil {
		return position{}, fmt.Errorf("decoding the position: %w", err)
	}
	var err error
	p.inline, err = wire.DecodeRecords(rest, 0)
	return p, err
}
