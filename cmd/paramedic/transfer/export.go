package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"paramedic/cmd/paramedic/config"
	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/state/archive"
	"paramedic/state/jetstream"
)

// exportTo writes the state to a new file, or with "-" to standard output.
func (s Streams) exportTo(ctx context.Context, cfg config.Config, path string) (err error) {
	if path == "-" {
		return s.write(ctx, cfg, s.Out)
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists: name another file, or remove it", path)
	}
	// Under its name there is never a part of an export.
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("creating the file of the export: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // after the rename it has this name no more
	err = s.write(ctx, cfg, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("naming the file of the export: %w", err)
	}
	return nil
}

// write writes the state, and reports what was written.
func (s Streams) write(ctx context.Context, cfg config.Config, to io.Writer) (err error) {
	store, err := open(ctx, cfg, s.Logger(), jetstream.Read)
	if err != nil {
		return fmt.Errorf("opening the state: %w", err)
	}
	defer closing(ctx, &err, store.Close)
	out := &exporter{census: newCensus(), to: to}
	out.census.each = func(n uint64) { s.progress("exported", n) }
	if err := walk(ctx, store, out); err != nil {
		return fmt.Errorf("reading the state: %w", err)
	}
	end, err := out.w.End()
	if err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	fmt.Fprintf(s.Err, "exported %s and %s\n", out.census, text.Count(int(end.Records), "record")) //nolint:gosec // no store has as many
	return nil
}

// An exporter is a visitor that writes and counts what it sees.
type exporter struct {
	*census
	to io.Writer
	w  *archive.Writer
}

// Header implements archive.Visitor.
func (e *exporter) Header(h archive.Header) (err error) {
	if e.w, err = archive.NewWriter(e.to, h); err != nil {
		return err
	}
	return e.census.Header(h)
}

// Input implements archive.Visitor.
func (e *exporter) Input(in archive.Input) error {
	return errors.Join(e.w.Input(in), e.census.Input(in))
}

// Partition implements archive.Visitor.
func (e *exporter) Partition(p archive.Partition) error {
	return errors.Join(e.w.Partition(p), e.census.Partition(p))
}

// Record implements archive.Visitor.
func (e *exporter) Record(p int, r state.Record) error {
	return errors.Join(e.w.Record(r), e.census.Record(p, r))
}
