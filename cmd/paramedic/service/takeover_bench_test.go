package service

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
)

// BenchmarkTakeover measures the time from the loss of the active bot, as by kill -9, until another
// one delivers, on three NATS servers. All open incidents are of one cluster, so of one partition.
// lease-s is the part until it has the lease.
func BenchmarkTakeover(b *testing.B) {
	for _, incidents := range []int{100, 5_000, 20_000} {
		b.Run(fmt.Sprint(incidents), func(b *testing.B) {
			var lease time.Duration
			for b.Loop() {
				b.StopTimer()
				urls := natstest.StartCluster(b)
				fillOpen(b, urls, incidents)
				links := natstest.Links(b, urls)
				first := follow(b, natstest.URLs(links))
				first.await(b, "the first bot delivers", func() bool { return !first.keeper.Since("default").IsZero() })
				next := follow(b, urls)
				next.await(b, "the other one shows every incident", func() bool {
					return next.keeper.Ready(b.Context()) == nil && next.keeper.Tally().Open == incidents
				})
				b.StartTimer()
				began := time.Now()
				for _, l := range links {
					l.Cut()
				}
				next.await(b, "the other one has the lease", next.store.Held)
				lease += time.Since(began)
				next.await(b, "the other one delivers", func() bool {
					return !next.keeper.Since("default").IsZero() && next.keeper.Ready(b.Context()) == nil
				})
				b.StopTimer()
				next.end(b)
				first.end(b)
				b.StartTimer()
			}
			b.ReportMetric(lease.Seconds()/float64(b.N), "lease-s")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "active-s")
		})
	}
}

// A follower is a bot on an external store, without its deliveries.
type follower struct {
	store  *jetstream.Store
	keeper *keeper.Keeper
	stop   context.CancelFunc
	ended  chan error
}

func follow(b *testing.B, urls string) *follower {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := jetstream.Open(b.Context(), jetstream.Config{URL: urls, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	f := &follower{store: store, ended: make(chan error, 1), keeper: keeper.New(keeper.Config{Store: store, Lease: store,
		Clock: state.SystemClock{}, Logger: log, Fold: newFleetBoard(b, benchCatalog(b), trouble{}).fold})}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	go func() { f.ended <- f.keeper.Run(ctx) }()
	return f
}

func (f *follower) await(b *testing.B, what string, done func() bool) {
	b.Helper()
	late := time.After(5 * time.Minute)
	for !done() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			b.Fatalf("never: %s", what)
		}
	}
}

func (f *follower) end(b *testing.B) {
	b.Helper()
	f.stop()
	if err := <-f.ended; err != nil {
		b.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = f.store.Close(ctx) // the first one has no connection
}

// fillOpen stores open incidents of one alert each.
func fillOpen(b *testing.B, urls string, incidents int) {
	s := newStateWriter(b, jetstream.Config{URL: urls, Logger: slog.New(slog.DiscardHandler)})
	for pool := range incidents {
		s.fire(1, pool)
	}
	s.commit()
	if err := s.store.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
