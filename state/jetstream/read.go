package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
)

// retryPause is the delay before a read is repeated because of a concurrent commit.
const retryPause = 20 * time.Millisecond

var errMoved = errors.New("the partition was committed while it was read")

// retry repeats a read that a concurrent commit disturbed.
func (s *Store) retry(ctx context.Context, read func() error) error {
	for {
		if err := s.alive(ctx); err != nil {
			return err
		}
		err := read()
		if !errors.Is(err, errMoved) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return unavailable("reading", errors.Join(err, ctx.Err()))
		}
	}
}

// A decoded is the result of one message of a record.
type decoded struct {
	value      any
	part       uint64 // its part of the sum
	seq, first uint64 // of this message, and of the first message with the key
	deleted    bool
	order      int // among the records of one position
}

// keepNewest stores a message unless a newer one of its record was seen. A replica that lags can
// return both.
func keepNewest(newest map[string]decoded, record string, p decoded) {
	if old, ok := newest[record]; !ok || old.seq < p.seq {
		newest[record] = p
	}
}

func place(h nats.Header, seq uint64) decoded {
	return decoded{seq: seq, first: firstWritten(h, seq), deleted: h.Get(deletedHeader) != ""}
}

func (s *Store) boundedPosition(ctx context.Context, partition int) (position, uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.position(ctx, partition)
}

// List reads the records whose key is a prefix, or continues it after a dot, in the order of their
// first write. It reads each link in which some of them wait once.
func (s *Store) List(ctx context.Context, partition int, prefixes ...string) ([]state.Record, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if err := checkPartition(partition); err != nil {
		return nil, err
	}
	for _, prefix := range prefixes {
		if !validKey(prefix) {
			return nil, fmt.Errorf("key prefix %q: want dot-separated tokens of letters, digits, '-' and '_'", prefix)
		}
	}
	var records []state.Record
	err := s.retry(ctx, func() (err error) {
		records, err = s.list(ctx, partition, prefixes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", strings.Join(prefixes, ", "), err)
	}
	return records, nil
}

func (s *Store) list(ctx context.Context, partition int, prefixes []string) ([]state.Record, error) {
	// First those that wait: if they are written to their places meanwhile, they are there, too.
	waits, err := s.newestWaiting(ctx, partition)
	if err != nil {
		return nil, err
	}
	waiting, err := s.waitingOf(ctx, partition, waits, prefixes)
	if err != nil {
		return nil, err
	}
	newest := map[string]decoded{}
	for _, prefix := range prefixes {
		subject := recordSubject(partition, prefix)
		for _, filter := range []string{subject, subject + ".>"} {
			if err := s.listOf(ctx, filter, newest); err != nil {
				return nil, err
			}
		}
	}
	for i, r := range waiting {
		p := decoded{seq: waits.rev, first: waits.rev, deleted: r.Value == nil, order: i, value: r}
		placed := recordSubject(partition, r.Key)
		if old, ok := newest[placed]; ok && !old.deleted {
			p.first = old.first
		}
		keepNewest(newest, placed, p)
	}
	live := make([]decoded, 0, len(newest))
	for _, p := range newest {
		if !p.deleted {
			live = append(live, p)
		}
	}
	slices.SortFunc(live,
		func(a, b decoded) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.seq, b.seq), cmp.Compare(a.order, b.order))
		})
	records := make([]state.Record, len(live))
	for i, p := range live {
		records[i] = p.value.(state.Record)
	}
	return records, nil
}

// fewRecords bounds how many records a listing requests one by one. Each costs a request; a scan
// costs a consumer, and the server looks for its messages among all of the stream (53 ms for three
// of 300,000 records, see BenchmarkList).
const fewRecords = 64

// listOf adds the records that the filter matches.
func (s *Store) listOf(ctx context.Context, filter string, newest map[string]decoded) error {
	asking, cancel := bounded(ctx)
	defer cancel()
	info, err := s.st.Info(asking, natsjs.WithSubjectFilter(filter))
	if err != nil {
		return unavailable("reading", err)
	}
	if len(info.State.Subjects) > fewRecords {
		return s.scanOf(ctx, filter, newest)
	}
	for subject := range info.State.Subjects {
		m, err := s.st.GetLastMsgForSubject(asking, subject)
		if errors.Is(err, natsjs.ErrMsgNotFound) { // it expired, or it cannot be read
			err = s.stallReason(ctx, []string{subject}, err)
			if errors.Is(err, errPaused) {
				continue
			}
			return err
		}
		if err != nil {
			return unavailable("reading", err)
		}
		p := place(m.Header, m.Sequence)
		if p.value, err = record(m.Subject, m.Data); err != nil {
			return err
		}
		keepNewest(newest, m.Subject, p)
	}
	return nil
}

// scanOf adds the same records, for a filter that matches many.
func (s *Store) scanOf(ctx context.Context, filter string, newest map[string]decoded) error {
	filters := []string{filter}
	last, err := s.lastOf(ctx, filters)
	if err != nil || last == 0 {
		return err
	}
	seen := uint64(0)
	var failed error
	left, err := s.scan(ctx, s.records(filters...), 1, last, func(m natsjs.Msg, seq uint64) {
		p := place(m.Headers(), seq)
		var err error
		if p.value, err = record(m.Subject(), m.Data()); err != nil && failed == nil {
			failed = err
		}
		keepNewest(newest, m.Subject(), p)
		seen++
	})
	if err == nil {
		err = failed
	}
	if err == nil && left > 0 {
		err = s.checkComplete(ctx, filters, seen)
	}
	return err
}

// lastOf returns the newest sequence that the filters match according to the stream's leader, or 0.
func (s *Store) lastOf(ctx context.Context, filters []string) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	last := uint64(0)
	for _, f := range filters {
		m, err := s.st.GetLastMsgForSubject(ctx, f)
		switch {
		case err == nil:
			last = max(last, m.Sequence)
		case !errors.Is(err, natsjs.ErrMsgNotFound):
			return 0, unavailable("reading", err)
		}
	}
	return last, nil
}

// record never returns a nil value, which would mean deletion, but for an error.
func record(subject string, stored []byte) (state.Record, error) {
	r := state.Record{Key: recordKey(subject), Value: []byte{}}
	value, err := wire.Decompress(stored)
	if err != nil {
		return state.Record{Key: r.Key}, fmt.Errorf("%w: the record %s cannot be read: %w", state.ErrDamaged, r.Key, err)
	}
	if value != nil {
		r.Value = value
	}
	return r, nil
}
