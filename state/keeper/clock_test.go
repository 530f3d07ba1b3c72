package keeper_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper"
)

// A setClock is a hand clock that can also be set to another time, as an operator or NTP does. What
// waits goes on to wait as long as before.
type setClock struct {
	*handClock
	set time.Duration
}

func (c *setClock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Sub(newHandClock().now) - c.set
}

func (c *setClock) setBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.set = c.now.Add(d), c.set+d
	for ch, at := range c.waiters {
		c.waiters[ch] = at.Add(d)
	}
}

// If the clock of the machine is set by an hour, an incident without alerts is held open for its
// two minutes, and a critical one without a verdict is told of after its 30 s.
func TestClockStepMovesTimers(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			clock := &setClock{handClock: newHandClock()}
			store := openIn(t, t.TempDir())
			b := run(t, store, keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
				Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
			until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
			send := func(in state.Input) {
				if err := b.Append(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			status := func(pool string) state.Status {
				for _, in := range b.Incidents() {
					if in.Scope.Pool == pool {
						return in.Status
					}
				}
				return ""
			}
			told := func() (n int) {
				for _, e := range b.pendingEffects() {
					if e.Kind == state.EffectNotify && !e.Due.After(clock.Now()) {
						n++
					}
				}
				return n
			}
			send(alert("held", "held", clock.Now()))
			ended := alert("held", "held", clock.Now())
			ended.Alerts.Alerts[0].Status, ended.Alerts.Alerts[0].EndsAt = state.Resolved, clock.Now()
			send(ended)
			send(alert("new", "new", clock.Now()))
			until(t, "one is held, one is new", func() bool { return status("held") == state.StatusMonitoring && status("new") == state.StatusOpen })
			tick := func(seconds int) {
				for range seconds {
					clock.advance(time.Second)
					until(t, "the log is applied", func() bool { return b.Ready(t.Context()) == nil && b.LagOf("prod").Inputs == 0 })
				}
			}
			tick(10)
			clock.setBy(by)
			tick(15)
			if n := told(); n != 0 || status("held") != state.StatusMonitoring {
				t.Errorf("after 25 s %d messages are due, and the incident without alerts is %s", n, status("held"))
			}
			tick(10)
			until(t, "the new incident is told of", func() bool { return told() > 0 })
			tick(80)
			if status("held") != state.StatusMonitoring {
				t.Errorf("after 115 s the incident without alerts is %s", status("held"))
			}
			tick(10)
			until(t, "the incident without alerts is resolved", func() bool { return status("held") == state.StatusResolved })
			if status("new") != state.StatusOpen {
				t.Errorf("the new incident is %s", status("new"))
			}
		})
	}
}
