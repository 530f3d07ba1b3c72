package jetstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"paramedic/state"
)

// A small commit is one message: the position, with the changed records behind it. They wait there
// until a commit has more than inlineBytes or inlineRecords with them, or until they have waited
// for inlineTime. That commit is an atomic batch, and writes all of them to their places.
// BenchmarkCommit shows what both cost.
const (
	inlineBytes   = 64 << 10       // each commit writes them again
	inlineRecords = MaxRecords / 2 // with those of the next commit they fit a batch
	inlineTime    = time.Minute    // a deleted record stays on disk so long
)

// A waitlist holds the records that are in the position of one revision, and not at their places.
// It is not changed after it was made.
type waitlist struct {
	rev     uint64
	records []state.Record // one per key, in the order of their first write
	index   map[string]int
	bytes   int
	since   time.Time // when the first of them began to wait; zero: none waits
}

// recordRoom bounds the bytes of a record in a position beside its key and value.
const recordRoom = 2 * binary.MaxVarintLen32

// with returns a list that has the newest value of each record.
func (w *waitlist) with(records []state.Record) *waitlist {
	next := &waitlist{records: slices.Clone(w.records), index: make(map[string]int, len(w.records)+len(records)),
		bytes: w.bytes, since: w.since}
	for i, r := range next.records {
		next.index[r.Key] = i
	}
	for _, r := range records {
		if i, ok := next.index[r.Key]; ok {
			next.bytes += len(r.Value) - len(next.records[i].Value)
			next.records[i] = r
			continue
		}
		next.index[r.Key] = len(next.records)
		next.records = append(next.records, r)
		next.bytes += len(r.Key) + len(r.Value) + recordRoom
	}
	return next
}

func (w *waitlist) has(key string) bool { _, ok := w.index[key]; return ok }

// waiting returns the records that wait in the partition's position of a revision. It fails with
// ErrFenced if that is not the newest one.
func (s *Store) waiting(ctx context.Context, partition int, rev uint64) (*waitlist, error) {
	if rev == 0 {
		return &waitlist{}, nil
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
	return s.keepWaiting(partition, rev, pos.inline), nil
}

// keepWaiting stores the records of a position. They wait since an earlier position had some.
func (s *Store) keepWaiting(partition int, rev uint64, records []state.Record) *waitlist {
	w := (&waitlist{}).with(records)
	w.rev = rev
	if len(records) > 0 {
		w.since = time.Now()
	}
	if was := s.waitlists[partition].Load(); was != nil && !was.since.IsZero() && len(records) > 0 {
		w.since = was.since
	}
	s.waitlists[partition].Store(w)
	return w
}

// mayWait reports whether the records of a commit may wait in its position.
func (s *Store) mayWait(w *waitlist) bool {
	return w.bytes <= min(s.inlineBytes, int(s.nc.MaxPayload()/4)) && len(w.records) <= inlineRecords &&
		(w.since.IsZero() || time.Since(w.since) < inlineTime)
}

// newestWaiting returns the records that wait in the partition's newest position.
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
	return s.keepWaiting(partition, rev, pos.inline), nil
}

// encode returns the position as JSON, and its records in a second line: the length of each key,
// the key, the length of the value and one, and the value; 0 instead for a deleted record.
func (p *position) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the position: %w", err)
	}
	if len(p.inline) == 0 {
		return data, nil
	}
	data = append(data, '\n')
	for _, r := range p.inline {
		data = append(binary.AppendUvarint(data, uint64(len(r.Key))), r.Key...)
		if r.Value == nil {
			data = append(data, 0)
			continue
		}
		data = append(binary.AppendUvarint(data, uint64(len(r.Value))+1), r.Value...)
	}
	return data, nil
}

// decodePosition reverses encode.
func decodePosition(data []byte) (position, error) {
	head, rest, _ := bytes.Cut(data, []byte{'\n'})
	var p position
	if err := json.Unmarshal(head, &p); err != nil {
		return position{}, fmt.Errorf("decoding the position: %w", err)
	}
	for len(rest) > 0 {
		key, left, ok := cutBytes(rest, 0)
		if !ok {
			return position{}, errShort
		}
		r := state.Record{Key: string(key)}
		if len(left) > 0 && left[0] == 0 {
			rest = left[1:]
		} else if r.Value, rest, ok = cutBytes(left, 1); !ok {
			return position{}, errShort
		}
		p.inline = append(p.inline, r)
	}
	return p, nil
}

var errShort = errors.New("its records end in the middle")

// cutBytes returns the bytes behind their length, which is stored with an addition.
func cutBytes(data []byte, added uint64) (value, rest []byte, ok bool) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n < added || n-added > uint64(len(data)-size) {
		return nil, nil, false
	}
	end := size + int(n-added) //nolint:gosec // at most len(data)
	return slices.Clone(data[size:end:end]), data[end:], true
}
