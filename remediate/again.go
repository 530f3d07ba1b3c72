package remediate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// freshIntent limits the age of the guards' answers on which a write may follow. Usually the write
// follows within a second. A crash, a busy queue or an unreachable API server delays it.
const freshIntent = 10 * time.Second

// late reports whether the guards' answers that led to the intent are too old to write on.
func (r *stage) late() bool { return r.cfg.Clock.Now().Sub(r.act.Write.At) > freshIntent }

// mayWrite reports whether the intent's first write may be made now. If not, it returns the step to
// take instead. It asks the guards first: reading takes a while, and a person may cancel meanwhile.
func (r *stage) mayWrite(ctx context.Context) (advance, bool) {
	if r.cfg.Clock.Now().Sub(r.act.Write.At) > r.cfg.Timing.Stale {
		tooOld := "the write was delayed for over " + state.FormatDuration(r.cfg.Timing.Stale) + "; nothing was written"
		return advance{to: state.Superseded, text: tooOld}, false
	}
	if r.late() {
		switch decision, why, retry := r.askAgain(ctx, guard.All()); decision {
		case state.Allow:
		case state.Hold:
			return r.stay(pause(r.now, retry, time.Minute)), false
		default:
			return advance{to: state.Denied, text: "stopped before the write: " + why}, false
		}
	}
	if why := r.stopped(); why != "" {
		return advance{to: state.Denied, text: "stopped before the write: " + why}, false
	}
	return advance{}, true
}

// mayEvict reports whether the drained worker may be evicted now. If not, it returns the step to
// take instead.
//
// The intent is as old as the drain was long. The guards that judge what the isolation itself
// changes are left out: the worker's signals fade or vanish, and the labels are no longer those
// that the write was prepared for. Instead of capacity, noOtherReady counts the other workers.
func (k restartWorker) mayEvict(ctx context.Context, r *stage) (advance, bool) {
	if r.late() {
		list := guard.Without("evidence", "capacity", "verifiability")
		switch decision, why, _ := r.askAgain(ctx, list); decision {
		case state.Allow:
		case state.Hold:
			return r.blocked("a guard held the eviction for %s: %s", why), false
		default:
			r.note(keyUndo, why)
			return r.stay(0), false
		}
	}
	if why := cmp.Or(k.noOtherReady(ctx, r), r.stopped()); why != "" {
		r.note(keyUndo, why)
		return r.stay(0), false
	}
	return advance{}, true
}

// blocked waits until the eviction is possible, for at most Timing.Blocked, because the worker is
// out of serving meanwhile.
func (r *stage) blocked(format, why string) advance {
	if r.now.Sub(r.stamp(keyBlocked)) < r.cfg.Timing.Blocked {
		return r.stay(r.cfg.Timing.Poll)
	}
	r.note(keyUndo, fmt.Sprintf(format, state.FormatDuration(r.cfg.Timing.Blocked), why))
	return r.stay(0)
}

// askAgain asks the guards about the run on fresh reads, and records their answers.
func (r *stage) askAgain(ctx context.Context, list []guard.Guard) (state.Decision, string, time.Time) {
	s := r.cfg.survey(ctx, r.in, r.act)
	r.act.Guards = guard.Ask(ctx, s, list)
	return guard.Weigh(r.act.Guards)
}

// stricter returns the mode in force now, if it trusts the bot less than the mode in which the run
// was planned. Otherwise it returns "".
func (r *stage) stricter() string {
	rule := r.cfg.For(r.act.Cause, r.act.Kind, r.act.Target)
	if !rule.Mode.StricterThan(policy.Mode(r.act.Mode)) {
		return ""
	}
	return fmt.Sprintf("the mode changed to %s (%s)", rule.Mode, rule.Because)
}

// pause returns how long to wait until a time, and at most the given time. It returns the latter if
// the time has passed.
func pause(now, until time.Time, most time.Duration) time.Duration {
	if wait := until.Sub(now); wait > 0 && wait < most {
		return wait
	}
	return most
}
