package keeper_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
)

// A lostStore can no longer be read once it is lost.
type lostStore struct {
	state.Store
	lost atomic.Bool
	cut  chan struct{}
}

type lostReader struct {
	state.InputReader
	s *lostStore
}

var errLost = errors.New("the records cannot be read")

func (s *lostStore) Load(ctx context.Context, p int, d state.Decoder) ([]any, state.Fence, error) {
	if s.lost.Load() {
		return nil, state.Fence{}, errLost
	}
	return s.Store.Load(ctx, p, d)
}

func (s *lostStore) Inputs(ctx context.Context, p int, after uint64) (state.InputReader, error) {
	r, err := s.Store.Inputs(ctx, p, after)
	return lostReader{r, s}, err
}

func (r lostReader) Next(ctx context.Context) (state.Input, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-r.s.cut:
			stop()
		case <-ctx.Done():
		}
	}()
	in, err := r.InputReader.Next(ctx)
	if r.s.lost.Load() {
		return in, errLost
	}
	return in, err
}

// A partition that stopped and cannot be read again is not ready, although it was.
func TestStoppedPartitionIsNotReady(t *testing.T) {
	inner := openIn(t, t.TempDir())
	store := &lostStore{Store: inner, cut: make(chan struct{})}
	b := run(t, inner, keeper.New(keeper.Config{Store: store, Clock: newHandClock(), Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	store.lost.Store(true)
	close(store.cut)
	until(t, "not ready", func() bool { return b.Ready(t.Context()) != nil })
}
