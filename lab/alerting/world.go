package alerting

import (
	"context"
	"log/slog"
	"time"

	"paramedic/lab"
	"paramedic/lab/clock"
)

// A World holds the fleets of one cluster with their monitoring: a Ruler for each, and one
// Alertmanager.
type World struct {
	Fleets       []*lab.Fleet // all with the same start
	Rulers       []*Ruler
	Alertmanager *Alertmanager
	Log          *slog.Logger // gets failed deliveries; nil: they are not logged
	next         time.Time
}

// NewWorld returns a World of at least one fleet.
func NewWorld(am AlertmanagerConfig, fleets ...*lab.Fleet) *World {
	w := &World{Fleets: fleets, Alertmanager: NewAlertmanager(am), next: fleets[0].Start()}
	for _, f := range fleets {
		w.Rulers = append(w.Rulers, NewRuler(f, ""))
	}
	return w
}

// Advance simulates up to a moment. Every ScrapeInterval it evaluates the rules and delivers
// alerts.
func (w *World) Advance(ctx context.Context, to time.Time) {
	for !w.next.After(to) {
		if w.follow(ctx, w.next); ctx.Err() != nil {
			return
		}
		var alerts []Alert
		for _, r := range w.Rulers {
			alerts = append(alerts, r.Evaluate()...)
		}
		w.Alertmanager.Receive(w.next, alerts)
		if err := w.Alertmanager.Deliver(ctx, w.next); err != nil && w.Log != nil {
			w.Log.WarnContext(ctx, "an alert was not delivered", "err", err)
		}
		w.next = w.next.Add(ScrapeInterval)
	}
	w.follow(ctx, to)
}

func (w *World) follow(ctx context.Context, to time.Time) {
	for _, f := range w.Fleets {
		f.Follow(ctx, to)
	}
}

const (
	// beat is the real time between two moments at which a running World catches up with its clock.
	beat = 50 * time.Millisecond
	// ahead is the most real time by which the clock runs ahead of the world.
	ahead = 5 * beat
)

// Run keeps the world at a clock's time until the context ends. The clock waits for the world.
func (w *World) Run(ctx context.Context, c *clock.Clock) {
	beat := time.NewTicker(beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			now := c.Now()
			w.Advance(ctx, now)
			c.RunUntil(now, ahead)
		}
	}
}
