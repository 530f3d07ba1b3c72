package fold

import (
	"time"

	"paramedic/state"
)

// applyClock moves what the board waits for with the clock. The waiting thus takes as long as it
// would have taken, and nothing ends early or late. A silence stays, because a person named its
// end.
func (x *step) applyClock(c state.ClockStep) {
	move := func(t *time.Time) bool {
		if !t.IsZero() {
			*t = t.Add(c.By)
		}
		return !t.IsZero()
	}
	for _, in := range x.incidents {
		if !in.Open() {
			continue
		}
		if move(&in.EnrichAt) {
			x.changedIncident(in)
		}
		for _, t := range []*time.Time{&in.NotifyBy, &in.HoldUntil} {
			if move(t) {
				x.setTimer(in, *t)
				x.changedIncident(in)
			}
		}
	}
	for _, e := range x.effects {
		x.changeEffect(e, func(e *state.Effect) {
			move(&e.Due)
			if e.Kind == state.EffectRun {
				e.Turn = x.in.Turn() // a step that is on its way has the old times: it is dropped, and taken again
			}
		})
	}
	was := x.now.Add(-c.By) // by the clock of before
	for _, a := range x.actions {
		switch {
		case a.State == state.AwaitingApproval && move(&a.ExpiresAt):
			x.scheduleAction(a)
		case hasRunner(a):
			a.MoveClock(c.By) // the effect of its next look was moved above
		case a.Begun() && len(a.Steps) > 0 && was.Sub(a.Steps[len(a.Steps)-1].At) < 24*time.Hour:
			a.MoveJournal(c.By) // cooldowns and budgets count it
		default:
			continue
		}
		x.touch(kindAction, string(a.ID))
	}
	x.meta.HeardFrom = x.now
	if move(&x.meta.SweptAt) {
		x.touch(kindMeta, "board")
	}
}
