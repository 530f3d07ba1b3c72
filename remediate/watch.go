package remediate

import (
	"context"
	"strings"
	"time"

	"paramedic/remediate/verify"
	"paramedic/state"
)

// The journal's keys of this file.
const (
	keyWatched  = "watched"  // the last reading of the guardrails while the change takes effect
	keyRestored = "restored" // the time at which a rollback was first seen to be live
)

// readySignal is the number of ready workers among the metrics of an action.
const readySignal = "replicas_ready"

// watch reads the guardrails while the change takes effect, and returns the breach or "". A rollout
// causes single bad readings, so a breach has to last for as many readings as the baseline has.
func (r *stage) watch(ctx context.Context, kind action) string {
	a, t := r.act, r.cfg.Timing
	last, _ := time.Parse(time.RFC3339Nano, a.Journal[keyWatched]) // zero before the first reading
	if r.now.Sub(last) < t.Interval {
		return ""
	}
	r.note(keyWatched, r.now.Format(time.RFC3339Nano))
	s := r.cfg.survey(ctx, r.in, a)
	got, v := s.Reading(), &a.Verify
	var breached []string
	for _, m := range verify.Applying(r.cfg.metrics(kind), a) {
		if m.Rolling == (verify.Rolling{}) {
			continue
		}
		if !s.Breaches(m, got) {
			delete(v.Watched, m.Signal)
			continue
		}
		verify.Keep(&v.Watched, map[string]float64{m.Signal: got[m.Signal]})
		if len(v.Watched[m.Signal]) >= t.Readings() {
			breached = append(breached, m.Moved(v.Baseline[m.Signal], got[m.Signal]))
		}
	}
	if len(breached) == 0 {
		return ""
	}
	v.Verdict = state.Worse
	v.Text = "guardrail breached while the change took effect: " + strings.Join(breached, ", ")
	return v.Text
}

// whole reports whether as many workers are ready as the pool wants, or as were ready before the
// write: one that found no GPU then may still wait for it.
func (r *stage) whole(ready, wanted int) bool {
	before, known := r.act.Verify.Baseline[readySignal]
	return ready >= wanted || known && float64(ready) >= max(1, before)
}

// takeEffect waits until the change is in force, and stops waiting if a guardrail is breached.
func (r *Runner) takeEffect(ctx context.Context, st *stage, kind action) advance {
	adv := kind.live(ctx, st)
	if adv.to != state.Applied {
		return adv
	}
	switch why := st.watch(ctx, kind); {
	case why == "":
		return adv
	case kind.reversible():
		return advance{to: state.RollbackIntent, text: why}
	default:
		return advance{to: state.NeedsHuman, text: why + "; this action has no rollback"}
	}
}

// undo takes the write back, and verifies that the metrics that had got worse recovered. If they
// did not, the change was not the only cause, and the run needs a person. The same holds if they
// cannot be read.
func (r *Runner) undo(ctx context.Context, st *stage, kind action) advance {
	adv := kind.undo(ctx, st)
	if adv.to != state.RolledBack {
		return adv
	}
	a, t := st.act, r.cfg.Timing
	settled := st.stamp(keyRestored).Add(t.Settle)
	if st.now.Before(settled) {
		return st.stay(settled.Sub(st.now))
	}
	verify.Keep(&a.Verify.Undone, r.sample(ctx, st, settled))
	again, still, unread := verify.Recovered(a, r.cfg.metrics(kind), t.Samples, t.Readings())
	until := settled.Add(t.Window)
	switch {
	case len(still)+len(unread) == 0:
		if len(again) > 0 {
			adv.text += "; " + strings.Join(again, ", ")
		}
		return adv
	case st.now.Before(until):
		return st.stay(min(t.Interval, until.Sub(st.now)))
	case len(still) > 0:
		return advance{to: state.NeedsHuman, text: adv.text + "; the rollback did not help: " + strings.Join(still, ", ")}
	}
	return advance{to: state.NeedsHuman,
		text: adv.text + "; no fresh samples show whether the rollback helped: " + strings.Join(unread, ", ")}
}
