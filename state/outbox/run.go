package outbox

import (
	"context"
	"fmt"
	"time"

	"paramedic/state"
)

// Run delivers until the context ends. Deliveries in flight then have Config.Grace to finish; after that their contexts end, and what
// has not answered is delivered again after the next start. Run is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var alarm <-chan time.Time
	var alarmAt time.Time
	for {
		next := d.start(work, d.cfg.Clock.Now())
		if next.IsZero() {
			alarm, alarmAt = nil, next
		} else if !next.Equal(alarmAt) || alarm == nil {
			alarm, alarmAt = d.cfg.Clock.After(next.Sub(d.cfg.Clock.Now())), next
		}
		select {
		case <-ctx.Done():
			return d.drain(stop)
		case <-d.cfg.Source.Changed():
		case <-alarm:
			alarm = nil
		case f := <-d.finished:
			d.finish(f)
		}
	}
}

// start begins what is due and has a free worker, and says when to look again at the latest. What waits for a worker is looked at
// when one is free.
func (d *Dispatcher) start(ctx context.Context, now time.Time) time.Time {
	due, next := d.cfg.Source.Due(now)
	listed := make(map[state.EffectID]bool, len(due))
	for _, e := range due {
		listed[e.ID] = true
		if turn, ok := d.answered[e.ID]; d.inFlight[e.ID] || ok && turn == e.Turn {
			continue
		}
		l := laneOf(e)
		if d.busy[l] >= d.workers(e.Kind) {
			continue
		}
		d.busy[l]++
		d.inFlight[e.ID] = true
		go func() {
			answered := d.deliver(ctx, e)
			d.finished <- delivered{e, answered}
		}()
	}
	for id := range d.answered { // gone, or put off: the outcome was applied
		if !listed[id] {
			delete(d.answered, id)
		}
	}
	return next
}

// workers of a kind that no lane was made for is one: its effects are refused, which takes no time.
func (d *Dispatcher) workers(kind state.EffectKind) int {
	return max(1, d.lanes[kind].Workers)
}

func (d *Dispatcher) finish(f delivered) {
	delete(d.inFlight, f.effect.ID)
	d.busy[laneOf(f.effect)]--
	if f.answered {
		d.answered[f.effect.ID] = f.effect.Turn
	}
}

// drain waits for what is in flight: for the grace period, and then as long again for handlers to see that their context has ended.
// The grace is the machine's time, because whoever waits for the process to end counts in that.
func (d *Dispatcher) drain(stop context.CancelFunc) error {
	grace := time.NewTimer(d.cfg.Grace)
	defer grace.Stop()
	stopped := false
	for len(d.inFlight) > 0 {
		select {
		case f := <-d.finished:
			d.finish(f)
		case <-grace.C:
			if stopped {
				left := len(d.inFlight)
				go func() { // so that a late handler's goroutine can end
					for range left {
						<-d.finished
					}
				}()
				return fmt.Errorf("%d deliveries did not end with their context; they are made again after the next start", left)
			}
			stop()
			stopped = true
			grace.Reset(d.cfg.Grace)
		}
	}
	return nil
}
