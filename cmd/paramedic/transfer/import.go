package transfer

import (
	"context"
	"fmt"
	"io"
	"os"

	"paramedic/cmd/paramedic/config"
	"paramedic/state"
	"paramedic/state/archive"
	"paramedic/state/jetstream"
)

// importFrom fills the empty store of the configuration from a file.
func (s Streams) importFrom(ctx context.Context, cfg config.Config, path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the export: %w", err)
	}
	defer file.Close()
	want := newCensus()
	want.each = func(n uint64) { s.progress("checked", n) }
	if _, err := archive.Read(file, want); err != nil {
		return fmt.Errorf("%s: %w. Nothing was written", path, err)
	}
	store, err := open(ctx, cfg, s.Logger(), jetstream.Fill)
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer closing(ctx, &err, store.Close)
	if most := store.MaxMessage(); int64(want.largest) > most {
		return fmt.Errorf("the NATS server takes messages of at most %d bytes, and the export has one of %d: set its max_payload "+
			"to 8 MB. Nothing was written", most, want.largest)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the export again: %w", err)
	}
	if err := s.fill(ctx, store, file, want); err != nil {
		return fmt.Errorf("the import did not complete, and no bot opens the store until one has: %w", err)
	}
	fmt.Fprintf(s.Out, "imported %s; the store was read again and has the same\n"+
		"Start the bot with this configuration, and never again on the old state: it would send its messages a second time.\n", want)
	return nil
}

// fill writes the file into the store, and compares the two.
func (s Streams) fill(ctx context.Context, store *jetstream.Store, file io.Reader, want *census) error {
	log, err := store.Filler(ctx, want.begin())
	if err != nil {
		return err
	}
	in := &importer{ctx: ctx, store: store, log: log, last: want.last, each: func(n uint64) { s.progress("imported", n) }}
	if _, err := archive.Read(file, in); err != nil {
		return err
	}
	if err := in.finish(); err != nil {
		return err
	}
	have := newCensus()
	have.each = func(n uint64) { s.progress("compared", n) }
	if err := walk(ctx, store, have); err != nil {
		return fmt.Errorf("reading the store again: %w", err)
	}
	if err := have.equal(want); err != nil {
		return err
	}
	return store.Filled(ctx)
}

// maxCommit bounds the bytes of the records in one commit.
const maxCommit = 16 << 20

// An importer is a visitor that writes what it sees into a store.
type importer struct {
	ctx   context.Context // of the one call for which it lives: a visitor's methods take none
	store *jetstream.Store
	log   *jetstream.Filler
	last  uint64 // the end of the log
	done  uint64 // inputs so far
	each  func(inputs uint64)

	inRecords bool // the log is complete, and records follow
	part      archive.Partition
	fence     state.Fence
	batch     []state.Record
	bytes     int
}

// Header implements archive.Visitor.
func (i *importer) Header(archive.Header) error { return nil }

// Input implements archive.Visitor.
func (i *importer) Input(in archive.Input) error {
	i.done++
	i.each(i.done)
	return i.log.Input(i.ctx, jetstream.Logged(in))
}

// Partition implements archive.Visitor.
func (i *importer) Partition(p archive.Partition) (err error) {
	if err := i.finish(); err != nil {
		return err
	}
	i.inRecords, i.part = true, p
	_, i.fence, err = i.store.Load(i.ctx, p.Partition, func(state.Record) (any, error) { return nil, nil })
	return err
}

// Record implements archive.Visitor.
func (i *importer) Record(_ int, r state.Record) error {
	if len(i.batch) == jetstream.MaxRecords || i.bytes+len(r.Value) > maxCommit {
		if err := i.commit(0); err != nil {
			return err
		}
	}
	i.batch, i.bytes = append(i.batch, r), i.bytes+len(r.Value)
	return nil
}

// finish completes the log, or the partition whose records were the last.
func (i *importer) finish() error {
	if !i.inRecords {
		return i.log.End(i.ctx, i.last)
	}
	return i.commit(i.part.Position)
}

// commit writes the batch. The position is 0 until the partition is complete.
func (i *importer) commit(position uint64) (err error) {
	i.fence, err = i.store.Commit(i.ctx, i.part.Partition, i.fence, position, i.batch)
	i.batch, i.bytes = nil, 0
	return err
}
