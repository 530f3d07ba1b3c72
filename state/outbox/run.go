package outbox

import (
	"context"
	"fmt"
	"time"

	"paramedic/state/keeper"
)

// Run delivers until the context ends. Deliveries in flight then have Config.Grace to finish; after
// that their contexts end, and what has not answered is delivered again after the next start. Run
// is called once.
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
		case p := <-d.progress:
			d.advance(p)
		}
	}
}

// start begins what is due and has a free worker, and returns when to look again at the latest.
// What waits for a worker is looked at when one is free.
func (d *Dispatcher) start(ctx context.Context, now time.Time) time.Time {
	tasks, next := d.cfg.Source.Take(now, d.room)
	for _, t := range tasks {
		d.busy[t.Lane]++
		d.inFlight++
		go d.carry(ctx, t)
	}
	return next
}

// carry delivers a task and puts its outcome into the log. The worker is free as soon as the
// neighbour has answered: many outcomes then share one write.
func (d *Dispatcher) carry(ctx context.Context, t keeper.Task) {
	res, ok := d.deliver(ctx, t.Effect)
	d.progress <- progress{task: t}
	answered := ok && d.answer(ctx, t.Effect, res)
	d.progress <- progress{task: t, over: true, answered: answered}
}

// room returns how many workers of a lane are free. A kind that no lane was made for has one: its
// effects are refused, which takes no time. While the log is behind, nothing new begins.
func (d *Dispatcher) room(l keeper.Lane) int {
	if d.answering >= mostAnswering {
		return 0
	}
	return max(1, d.lanes[l.Kind].Workers) - d.busy[l]
}

func (d *Dispatcher) advance(p progress) {
	if !p.over {
		d.busy[p.task.Lane]--
		d.answering++
		return
	}
	d.answering--
	d.inFlight--
	d.cfg.Source.Finished(p.task, p.answered)
}

// drain waits for what is in flight: for the grace period, and then as long again for handlers to
// see that their context has ended. The grace is the machine's time, because whoever waits for the
// process to end counts in that.
func (d *Dispatcher) drain(stop context.CancelFunc) error {
	grace := time.NewTimer(d.cfg.Grace)
	defer grace.Stop()
	stopped := false
	for d.inFlight > 0 {
		select {
		case p := <-d.progress:
			d.advance(p)
		case <-grace.C:
			if stopped {
				left := d.inFlight
				go d.discard() // so that a late handler's goroutine can end
				return fmt.Errorf("%d deliveries did not end with their context; they are made again after the next start", left)
			}
			stop()
			stopped = true
			grace.Reset(d.cfg.Grace)
		}
	}
	return nil
}

// discard takes the progress of what is left in flight until there is none.
func (d *Dispatcher) discard() {
	for d.inFlight > 0 {
		d.advance(<-d.progress)
	}
}
