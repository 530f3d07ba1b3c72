package outbox_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/state"
	"paramedic/state/outbox"
)

// A tide is a source in which the number of waiting messages is set by the test.
type tide struct {
	waiting atomic.Int64
	flood   *state.Flood
	news    []int
}

func (w *tide) FirstWaiting(ch state.Channel) (state.FloodCount, bool) {
	n := int(w.waiting.Load())
	return state.FloodCount{Channel: ch, Waiting: n}, n >= 0
}

func (w *tide) Flood(state.Channel) (state.Flood, bool) {
	if w.flood == nil {
		return state.Flood{}, false
	}
	return *w.flood, true
}

func (w *tide) Append(_ context.Context, inputs ...state.Input) error {
	for _, in := range inputs {
		w.news = append(w.news, in.Flood.Waiting)
		if w.flood = nil; !in.Flood.Over() {
			w.flood = &state.Flood{At: in.At, FloodCount: *in.Flood}
		}
	}
	return nil
}

func TestFloodIsReportedIfItDoublesOrEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &tide{}
		ctx, stop := context.WithCancel(t.Context())
		watch := func() {
			outbox.WatchFlood(ctx, outbox.FloodConfig{Source: w, Log: w, Clock: state.SystemClock{},
				Logger: slog.New(slog.DiscardHandler), Channel: "pagerduty", PerMinute: 100})
		}
		go watch()
		for _, at := range []struct {
			waiting int64
			during  time.Duration
		}{
			{100, time.Minute}, // the channel keeps up
			{101, 6 * time.Second},
			{90, 6 * time.Second},
			{300, 11 * time.Second}, // begins at the second count
			{590, 2 * time.Minute},
			{900, 2 * time.Minute},
			{-1, 2 * time.Minute}, // not known, after a partition has stopped
			{50, 30 * time.Second},
			{40, 2 * time.Minute},
			{10, time.Minute}, // over
		} {
			w.waiting.Store(at.waiting)
			time.Sleep(at.during)
			synctest.Wait()
		}
		stop()
		synctest.Wait()
		if want := []int{300, 900, 50, 0}; !slices.Equal(w.news, want) {
			t.Errorf("reported %v, want %v", w.news, want)
		}
	})
}
