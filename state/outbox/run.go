package outbox

import (
	"context"
	"fmt"
	"time"

	"paramedic/state"
	"paramedic/state/keeper/agenda"
)

// Run delivers until the context ends. Deliveries in progress then have Config.Grace to finish.
// After that their contexts end, and those without an outcome are delivered again after the next
// start. Run is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer close(d.ended)
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
			return d.drain(stop, d.cfg.Grace)
		case <-d.leaving:
			return d.drain(stop, handOverGrace)
		case <-d.cfg.Source.Changed():
		case <-alarm:
			alarm = nil
		case p := <-d.progress:
			d.advance(p)
		}
	}
}

// HandOver ends Run, for a process that gives its lease up. Deliveries that have begun a call
// finish it. Those that wait, or have only read, are left to the next process. It returns after
// Run, or when the context ends.
func (d *Dispatcher) HandOver(ctx context.Context) {
	d.leave.Do(func() { close(d.leaving) })
	select {
	case <-d.ended:
	case <-ctx.Done():
	}
}

// leasePause is the time between two looks of a process that does not hold the lease.
const leasePause = 500 * time.Millisecond

// start begins what is due and has a free worker, and returns the time of the next look. What waits
// for a worker is started when one is free.
func (d *Dispatcher) start(ctx context.Context, now time.Time) time.Time {
	if d.cfg.Lease != nil && !d.cfg.Lease.Held() {
		return now.Add(leasePause)
	}
	clear(d.shown)
	for lane, n := range d.busy {
		d.shown[lane.Channel] += n
	}
	d.more = time.Time{}
	tasks, next := d.cfg.Source.Take(now, func(l agenda.Lane) int { return d.room(l, now) })
	if !d.more.IsZero() && (next.IsZero() || d.more.Before(next)) {
		next = d.more
	}
	for _, t := range tasks {
		d.busy[t.Lane]++
		d.inFlight++
		go d.process(ctx, t)
	}
	return next
}

// process delivers a task and appends its outcome, if it has one. The worker is free as soon as its
// handler has returned, so that many outcomes share one write.
func (d *Dispatcher) process(ctx context.Context, t agenda.Task) {
	res, ok := d.deliver(ctx, t.Effect)
	d.progress <- progress{task: t}
	answered := ok && !t.Ahead && d.answer(ctx, t.Effect, res)
	d.progress <- progress{task: t, over: true, answered: answered}
}

// room returns the number of free workers of a lane. A kind without a lane has one: its effects
// fail at once. While too many outcomes wait for the log, nothing new begins. A channel that has no
// free message has no room.
func (d *Dispatcher) room(l agenda.Lane, now time.Time) int {
	if d.answering >= maxAnswering {
		return 0
	}
	room := max(1, d.lanes[l.Kind].Workers) - d.busy[l]
	if l.Kind == state.EffectEnrich && room > 0 && d.cfg.Busy != nil && d.cfg.Busy() {
		return d.gatherRoom(now)
	}
	if d.cfg.Free == nil || l.Channel == "" || room <= 0 {
		return room
	}
	free, more := d.cfg.Free(l.Channel, now)
	if free -= d.shown[l.Channel]; free < room {
		room = free
		d.lookAgain(more)
	}
	d.shown[l.Channel] += max(0, room)
	return room
}

// gatherRoom returns the room for gatherings while alerts need the processors.
func (d *Dispatcher) gatherRoom(now time.Time) int {
	if next := d.gathered.Add(gatherPause); now.Before(next) {
		d.lookAgain(next)
		return 0
	}
	d.gathered = now
	d.lookAgain(now.Add(gatherPause))
	return 1
}

// lookAgain starts again at this time, or earlier.
func (d *Dispatcher) lookAgain(at time.Time) {
	if d.more.IsZero() || at.Before(d.more) {
		d.more = at
	}
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

// drain waits for the deliveries in progress: for the grace period, and then as long again for
// handlers to return after the end of their context. It uses the machine's clock, as the supervisor
// of the process does.
func (d *Dispatcher) drain(stop context.CancelFunc, most time.Duration) error {
	grace := time.NewTimer(most)
	defer grace.Stop()
	stopped := false
	for d.inFlight > 0 {
		select {
		case p := <-d.progress:
			d.advance(p)
		case <-grace.C:
			if stopped {
				left := d.inFlight
				go d.discard() // so that the goroutine of a late handler can end
				return fmt.Errorf("%d deliveries did not end in time: Paramedic repeats them after the "+
					"next start", left)
			}
			stop()
			stopped = true
			grace.Reset(most)
		}
	}
	return nil
}

// discard receives the progress of the remaining deliveries.
func (d *Dispatcher) discard() {
	for d.inFlight > 0 {
		d.advance(<-d.progress)
	}
}
