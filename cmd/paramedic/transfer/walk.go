package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/state"
	"paramedic/state/archive"
	"paramedic/state/jetstream"
)

// openTime bounds how long a command waits for an external NATS server.
const openTime = time.Minute

func open(ctx context.Context, cfg config.Config, log *slog.Logger, purpose jetstream.Purpose) (*jetstream.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	store := service.StoreConfig(cfg, log)
	store.Purpose = purpose
	return jetstream.Open(ctx, store)
}

// walk shows a visitor the inputs and the records of a store, in the order of an archive.
func walk(ctx context.Context, store *jetstream.Store, visit archive.Visitor) error {
	log, records, err := store.Ends(ctx)
	if err != nil {
		return err
	}
	err = visit.Header(archive.Header{Format: state.Format, Version: service.Version, At: time.Now().UTC(),
		Partitions: store.Partitions(), Last: log})
	if err != nil {
		return err
	}
	if err := store.EachInput(ctx, func(in jetstream.Logged) error { return visit.Input(archive.Input(in)) }); err != nil {
		return err
	}
	for p := range store.Partitions() {
		// Load compares the records with their sum.
		_, fence, err := store.Load(ctx, p, func(state.Record) (any, error) { return nil, nil })
		if err != nil {
			return err
		}
		if fence.Rev == 0 {
			continue
		}
		if err := visit.Partition(archive.Partition{Partition: p, Position: fence.Position, Sum: store.Sum(p)}); err != nil {
			return err
		}
		if err := store.EachRecord(ctx, p, func(r state.Record) error { return visit.Record(p, r) }); err != nil {
			return err
		}
	}
	logNow, recordsNow, err := store.Ends(ctx)
	if err == nil && (logNow != log || recordsNow != records) {
		err = fmt.Errorf("the state changed meanwhile: stop every replica of the bot, and start this command again")
	}
	return err
}
