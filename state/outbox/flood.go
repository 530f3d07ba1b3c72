package outbox

import (
	"context"
	"log/slog"
	"time"

	"paramedic/state"
)

// A FloodSource knows what waits on a channel. *keeper.Keeper is one.
type FloodSource interface {
	// FirstWaiting counts the open incidents that wait for their first message. It returns false
	// if that is not known.
	FirstWaiting(ch state.Channel) (state.FloodCount, bool)
	// Flood returns the flood of the channel, if there is one.
	Flood(ch state.Channel) (state.Flood, bool)
}

// FloodConfig configures WatchFlood.
type FloodConfig struct {
	Source    FloodSource
	Log       state.Log
	Lease     state.Lease // nil: this process always delivers
	Clock     state.Clock
	Logger    *slog.Logger
	Channel   state.Channel
	PerMinute int // the messages that the channel takes in a minute
}

const (
	// floodLook is the time between two counts. A flood begins at the second count beyond the
	// limit, so that the first summary has more than the first incidents of a storm.
	floodLook = 5 * time.Second
	// floodPause is the least time between two changes of the summary. It changes when the number
	// has doubled or halved, so that a long flood does not use up the channel's limit.
	floodPause = time.Minute
	// floodEnd is the part of a minute's messages at which a flood is over.
	floodEnd = 10
)

// WatchFlood reports to the log when a flood of first messages begins, has changed, and is over. It
// runs until the context ends.
func WatchFlood(ctx context.Context, cfg FloodConfig) {
	beyond := 0 // counts beyond the limit in a row
	for {
		select {
		case <-ctx.Done():
			return
		case <-cfg.Clock.After(floodLook):
		}
		if cfg.Lease != nil && !cfg.Lease.Held() {
			beyond = 0
			continue
		}
		count, known := cfg.Source.FirstWaiting(cfg.Channel)
		if !known {
			continue
		}
		if beyond++; count.Waiting <= cfg.PerMinute {
			beyond = 0
		}
		flood, open := cfg.Source.Flood(cfg.Channel)
		now := cfg.Clock.Now()
		if news, ok := floodNews(flood, open && !flood.Over(), count, beyond, now, cfg.PerMinute); ok {
			if err := cfg.Log.Append(ctx, state.Input{At: now, Flood: &news}); err != nil && ctx.Err() == nil {
				cfg.Logger.WarnContext(ctx, "the log does not take a count of waiting messages, trying again", "err", err)
			}
		}
	}
}

// floodNews returns the count to report, if it differs enough from the known flood.
func floodNews(f state.Flood, open bool, c state.FloodCount, beyond int, now time.Time, perMinute int) (state.FloodCount, bool) {
	switch {
	case !open:
		return c, beyond >= 2
	case c.Waiting <= perMinute/floodEnd:
		return state.FloodCount{Channel: c.Channel}, true
	}
	changed := c.Waiting >= 2*f.Waiting || c.Waiting <= f.Waiting/2
	return c, changed && now.Sub(f.At) >= floodPause
}
