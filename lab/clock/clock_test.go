package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClockSpeedChangeWakesWaitersOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		c := New(begin, 10)
		soon, late := c.After(time.Minute), c.After(10*time.Minute)
		c.SetSpeed(1)
		if got := <-soon; got.Sub(begin) != time.Minute {
			t.Errorf("woken after %s of simulated time", got.Sub(begin))
		}
		c.SetSpeed(60)
		real := time.Now()
		if got := <-late; got.Sub(begin) != 10*time.Minute || time.Since(real) != 9*time.Second {
			t.Errorf("woken after %s of simulated time, and %s more of real time", got.Sub(begin), time.Since(real))
		}
	})
}

// A bot on this clock reads the pages of a simulation. A clock ahead of the simulation would give
// these pages a time that they are not of.
func TestClockWaitsForTheSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		c := New(begin, 60)
		c.RunUntil(begin, 250*time.Millisecond)
		woken := c.After(time.Minute)
		time.Sleep(10 * time.Second)
		if got := c.Now().Sub(begin); got != 15*time.Second {
			t.Errorf("%s of simulated time passed while the simulation stood still", got)
		}
		c.RunUntil(begin, 100*time.Millisecond)
		if got := c.Now().Sub(begin); got != 15*time.Second {
			t.Errorf("the clock went back to %s", got)
		}
		c.RunUntil(begin.Add(time.Minute), 0)
		if at := <-woken; at.Sub(begin) != time.Minute {
			t.Errorf("woken after %s of simulated time", at.Sub(begin))
		}
	})
}

func TestClockRunsAtItsSpeed(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	c := New(start, 1000)
	if at := <-c.After(5 * time.Second); at.Sub(start) < 5*time.Second {
		t.Errorf("five seconds ended after %v", at.Sub(start))
	}
}
